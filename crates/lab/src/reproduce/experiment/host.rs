//! The host of an experiment's time, as far as a guest's kernel or its drive can be set to be one, by a setting that
//! Linux has, a mount option, or the number of requests that the drive is sent at once. Every value has a source.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::builtin;

/// The settings that make a guest resemble a host of the experiment's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LabHost")]
pub struct Host {
    /// The name of the preset from which the values come, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The settings, in the order in which they are applied.
    pub settings: Vec<Setting>,
}

/// One setting with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LabSetting")]
pub struct Setting {
    /// The name of the setting.
    pub key: Key,
    /// The value as written to the guest's kernel.
    pub value: String,
    /// The source of the value.
    pub source: String,
}

/// A setting of the guest's kernel. Settings are applied in this order, because setting the scheduler changes
/// the number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "HostKey")]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// The I/O scheduler.
    Scheduler,
    /// The number of requests that the kernel queues for the drive.
    NrRequests,
    /// The size of the largest request, in KiB.
    MaxSectorsKb,
    /// The largest read-ahead of the kernel, in KiB.
    ReadAheadKb,
    /// The percentage of memory filled with unwritten data at which a program that writes has to wait.
    DirtyRatio,
    /// The percentage of memory filled with unwritten data at which the kernel begins to write it out.
    DirtyBackgroundRatio,
    /// The maximum number of requests outstanding at the drive at a time.
    QueueDepth,
    /// Whether the kernel sends flushes to the drive: 0 or 1.
    Flushes,
    /// Whether ext3 and ReiserFS flush the drive's cache with each commit: 0 or 1.
    Barriers,
}

/// A host as in a file: `host = { preset = "linux-2.6.32", queue_depth = { value = 1, source = "IDE" } }`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct HostFile {
    preset: Option<String>,
    #[serde(flatten)]
    values: BTreeMap<Key, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    value: toml::Value,
    source: String,
}

impl Host {
    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }
}

impl Key {
    /// Returns its name in files, the kernel's files that take the value, if any, and the limits of a number.
    const fn row(self) -> (&'static str, Option<&'static str>, Option<(i64, i64)>) {
        match self {
            Self::Scheduler => ("scheduler", Some("/sys/block/vd[a-z]/queue/scheduler"), None),
            Self::NrRequests => {
                ("nr_requests", Some("/sys/block/vd[a-z]/queue/nr_requests"), Some((4, 4096)))
            }
            Self::MaxSectorsKb => {
                ("max_sectors_kb", Some("/sys/block/vd[a-z]/queue/max_sectors_kb"), Some((4, 1280)))
            }
            Self::ReadAheadKb => {
                ("read_ahead_kb", Some("/sys/block/vd[a-z]/queue/read_ahead_kb"), Some((0, 1 << 20)))
            }
            Self::DirtyRatio => ("dirty_ratio", Some("/proc/sys/vm/dirty_ratio"), Some((1, 100))),
            Self::DirtyBackgroundRatio => {
                ("dirty_background_ratio", Some("/proc/sys/vm/dirty_background_ratio"), Some((1, 100)))
            }
            Self::QueueDepth => ("queue_depth", None, Some((1, 65_536))),
            Self::Flushes => ("flushes", Some("/sys/block/vd[a-z]/queue/write_cache"), Some((0, 1))),
            Self::Barriers => ("barriers", None, Some((0, 1))),
        }
    }

    /// Returns its name, as in files.
    pub const fn name(self) -> &'static str {
        self.row().0
    }
}

impl Host {
    /// Returns the names of the presets, sorted.
    pub fn presets() -> Vec<String> {
        presets().map(|presets| presets.into_keys().collect()).unwrap_or_default()
    }

    /// Returns a preset.
    pub fn preset(name: &str) -> Option<Self> {
        let values = presets().ok()?.remove(name)?;
        let host = HostFile { preset: None, values }.host().ok()?;
        Some(Self { preset: Some(name.to_owned()), ..host })
    }

    /// Returns the files of the guest's kernel, and what is written to each.
    pub fn files(&self) -> Vec<(String, String)> {
        let file = |setting: &Setting| {
            let file = setting.key.row().1?;
            let value = match (setting.key, setting.value.as_str()) {
                (Key::Flushes, "0") => "write through",
                (Key::Flushes, _) => "write back",
                (_, value) => value,
            };
            Some((file.to_owned(), value.to_owned()))
        };
        self.settings.iter().filter_map(file).collect()
    }

    /// Returns the number of requests that the drive is sent at once, if it is not the drive's own.
    pub fn queue_depth(&self) -> Option<u32> {
        self.value(Key::QueueDepth)?.parse().ok()
    }

    /// Returns the variable of the script's environment by which the host is applied.
    pub fn environment(&self) -> Option<(String, String)> {
        self.value(Key::Barriers).map(|value| ("BARRIERS".to_owned(), value.to_owned()))
    }

    fn value(&self, key: Key) -> Option<&str> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    }
}

impl HostFile {
    /// The values of the file replace those of the preset.
    pub(super) fn host(&self) -> Result<Host, String> {
        let mut host = match &self.preset {
            Some(name) => Host::preset(name)
                .ok_or_else(|| format!("unknown host preset {name:?}; use {}", Host::presets().join(", ")))?,
            None => Host::default(),
        };
        for (key, Value { value, source }) in &self.values {
            let value =
                plain(*key, value).map_err(|reason| format!("host setting {}: {reason}", key.name()))?;
            host.settings.retain(|setting| setting.key != *key);
            host.settings.push(Setting { key: *key, value, source: source.clone() });
        }
        host.settings.sort_by_key(|setting| setting.key);
        Ok(host)
    }
}

fn plain(key: Key, value: &toml::Value) -> Result<String, String> {
    match (key.row().2, value) {
        (None, toml::Value::String(name)) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let is_name = !name.is_empty() && name.chars().all(plain);
            if is_name { Ok(name.clone()) } else { Err(format!("unknown scheduler {name:?}")) }
        }
        (Some((low, high)), toml::Value::Integer(number)) if (low..=high).contains(number) => {
            Ok(number.to_string())
        }
        (Some((low, high)), _) => Err(format!("must be {low} to {high}")),
        (None, _) => Err("must be a name".to_owned()),
    }
}

fn presets() -> Result<BTreeMap<String, BTreeMap<Key, Value>>, toml::de::Error> {
    toml::from_str(builtin::HOSTS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{Host, HostFile, Key};

    fn parsed(text: &str) -> Result<Host, String> {
        toml::from_str::<HostFile>(text).map_err(|error| error.to_string())?.host()
    }

    #[test]
    fn every_preset_is_whole_and_every_value_has_a_source() {
        assert_eq!(Host::presets(), ["linux-2.6.32", "linux-3.10", "linux-3.2", "linux-6.1"]);
        for name in Host::presets() {
            let host = Host::preset(&name).unwrap();
            assert_eq!(host.settings.len(), 8, "{name}");
            assert!(host.settings.iter().all(|setting| setting.source.len() > 10), "{name}");
            assert!(host.settings.is_sorted_by_key(|setting| setting.key));
        }
    }

    #[test]
    fn values_of_the_file_replace_those_of_the_preset() {
        let text = "preset = \"linux-2.6.32\"\nqueue_depth = { value = 1, source = \"USB\" }\n\
                    max_sectors_kb = { value = 120, source = \"usb-storage\" }";
        let host = parsed(text).unwrap();
        assert_eq!((host.queue_depth(), host.settings.len()), (Some(1), 8));
        let files = host.files();
        assert!(files.contains(&("/sys/block/vd[a-z]/queue/max_sectors_kb".to_owned(), "120".to_owned())));
        assert_eq!(host.environment().unwrap(), ("BARRIERS".to_owned(), "0".to_owned()));
        let still = parsed("flushes = { value = 0, source = \"x\" }").unwrap();
        assert_eq!(still.files()[0].1, "write through");
        let own = parsed("dirty_ratio = { value = 40, source = \"x\" }").unwrap();
        assert_eq!(own.files(), [("/proc/sys/vm/dirty_ratio".to_owned(), "40".to_owned())]);
        assert_eq!(
            (own.settings[0].key, own.queue_depth(), own.environment()),
            (Key::DirtyRatio, None, None)
        );
    }

    #[test]
    fn what_no_host_has_is_refused() {
        for (text, reason) in [
            ("preset = \"linux-9\"", "use linux-2.6.32"),
            ("queue_depth = { value = 0, source = \"x\" }", "queue_depth: must be 1 to"),
            ("queue_depth = { value = \"1\", source = \"x\" }", "queue_depth: must be 1 to"),
            ("scheduler = { value = 1, source = \"x\" }", "must be a name"),
            ("scheduler = { value = \"a/b\", source = \"x\" }", "unknown scheduler"),
            ("queue_depth = { value = 1 }", "source"),
            ("speed = { value = 1, source = \"x\" }", "speed"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
