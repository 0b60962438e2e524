//! Plans as JSON, the same document for `--json`, `--save` and `apply`; it must pass every check of a plan.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

/// The schema version of plans. It is incremented when the meaning of a field changes or a field is removed.
pub const SCHEMA: u32 = 2;

/// A plan, with its schema version and the version of straddle that made it.
#[derive(Serialize, JsonSchema)]
pub struct Document<T> {
    /// The schema version of this plan.
    schema: u32,
    /// The version of straddle that made the plan.
    straddle: &'static str,
    #[serde(flatten)]
    plan: T,
}

impl<T> Document<T> {
    /// Of this program's version.
    pub fn of(plan: T) -> Self {
        Self { schema: SCHEMA, straddle: env!("CARGO_PKG_VERSION"), plan }
    }
}

pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut json = serde_json::from_str::<Value>(text).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof if (error.line(), error.column()) <= (1, 1) => {
            "the file is not a straddle plan".to_owned()
        }
        _ => error.to_string(),
    })?;
    let head = ["schema", "straddle"].map(|key| json.as_object_mut().and_then(|json| json.remove(key)));
    if head[0] != Some(SCHEMA.into()) {
        let found = head[0].as_ref().map_or_else(|| "missing".to_owned(), Value::to_string);
        return Err(format!(
            "the plan has schema version {found}, but this version of straddle reads only \
             version {SCHEMA}"
        ));
    }
    serde_json::from_value(json).map_err(|error| error.to_string())
}

macro_rules! checked_parts {
    ($plan:ident($parts:ident), $error:ident) => {
        impl TryFrom<$parts> for $plan {
            type Error = String;

            fn try_from(parts: $parts) -> Result<Self, String> {
                Self(parts).checked().map_err(|error| match error {
                    $error::Invalid(why) => why,
                    error => straddle_device::shown::with_causes(&error),
                })
            }
        }

        impl $plan {
            /// The plan as JSON.
            pub fn to_json(&self) -> Result<String, serde_json::Error> {
                serde_json::to_string_pretty(&$crate::document::Document::of(self))
            }

            /// Reads a stored plan.
            pub fn from_json(text: &str) -> Result<Self, $error> {
                $crate::document::read(text).map_err($error::Invalid)
            }
        }

        impl From<$plan> for $parts {
            fn from($plan(parts): $plan) -> Self {
                parts
            }
        }

        impl std::ops::Deref for $plan {
            type Target = $parts;

            fn deref(&self) -> &$parts {
                &self.0
            }
        }
    };
}
pub(crate) use checked_parts;

pub(crate) mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use straddle_device::hex::{decode, encode};

    pub(crate) fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        encode(bytes.as_ref()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<Vec<u8>>>(
        from: D,
    ) -> Result<T, D::Error> {
        let bytes = decode(&String::deserialize(from)?);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| D::Error::custom("invalid hexadecimal digits"))
    }
}
