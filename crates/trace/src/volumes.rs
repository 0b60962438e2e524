//! The names of the volumes of a trace.

use std::collections::HashMap;

use crate::error::LineError;
use crate::format::Volume;

/// The most volumes. The largest published traces are of fewer than 10,000.
pub(crate) const MOST: usize = 1 << 16;
/// The longest name in bytes.
const LONGEST: usize = 256;

/// The names, each with its index in the order of occurrence.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    names: Vec<String>,
    indices: HashMap<String, usize>,
    /// The name looked up last, and its index: most requests follow one of the same volume.
    name: String,
    last: Option<usize>,
}

impl Volumes {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index of a volume.
    pub(crate) fn index(&mut self, volume: Volume<'_>) -> Result<usize, LineError> {
        if let Some(last) = self.last
            && is(&self.name, volume)
        {
            return Ok(last);
        }
        let Volume(first, second) = volume;
        if first.len() + second.len() > LONGEST {
            return Err(LineError::LongName { limit: LONGEST });
        }
        self.name.clear();
        self.name.push_str(first);
        if !second.is_empty() {
            self.name.push(':');
            self.name.push_str(second);
        }
        let known = self.indices.get(&self.name).copied();
        let index = known.map_or_else(|| self.insert(), Ok)?;
        self.last = Some(index);
        Ok(index)
    }

    fn insert(&mut self) -> Result<usize, LineError> {
        let index = self.names.len();
        if index >= MOST {
            return Err(LineError::Volumes { most: MOST });
        }
        self.names.push(self.name.clone());
        self.indices.insert(self.name.clone(), index);
        Ok(index)
    }
}

/// Whether `name` is that of `volume`.
fn is(name: &str, Volume(first, second): Volume<'_>) -> bool {
    let rest = name.strip_prefix(first);
    let rest = rest.map(|rest| if second.is_empty() { rest } else { rest.strip_prefix(':').unwrap_or("\0") });
    rest == Some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_index() {
        let mut volumes = Volumes::default();
        let of = |volumes: &mut Volumes, first, second| volumes.index(Volume(first, second)).unwrap();
        for _ in 0..2 {
            let all = [("8", ""), ("8", "1"), ("8", ""), ("81", ""), ("", ""), ("8", "10"), ("8", "1")];
            let indices = all.map(|(first, second)| of(&mut volumes, first, second));
            assert_eq!(indices, [0, 1, 0, 2, 3, 4, 1]);
        }
        assert_eq!(volumes.names(), ["8", "8:1", "81", "", "8:10"]);
    }

    #[test]
    fn a_column_that_is_no_volume_is_refused() {
        let mut volumes = Volumes::default();
        for number in 0..MOST {
            volumes.index(Volume(&number.to_string(), "")).unwrap();
        }
        assert_eq!(volumes.index(Volume("x", "")), Err(LineError::Volumes { most: MOST }));
        assert_eq!(volumes.index(Volume("7", "")), Ok(7));
        assert!(volumes.index(Volume(&"x".repeat(300), "")).is_err());
    }
}
