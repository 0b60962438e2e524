//! A block's pairs by key, with checks of their values.

use straddle_units::io::Nanos;

use super::ImportError;
use super::syntax::{Block, Located, Value};

#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    file: &'a str,
    block: &'a Block,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(file: &'a str, block: &'a Block) -> Self {
        Self { file, block }
    }

    pub(super) const fn file(&self) -> &'a str {
        self.file
    }

    pub(super) fn name(&self) -> &'a str {
        &self.block.name
    }

    pub(super) fn find(&self, key: &str) -> Option<&'a Located> {
        self.block.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn get(&self, key: &str) -> Result<&'a Located, ImportError> {
        let missing = || ImportError::Missing {
            file: self.file.to_owned(),
            line: self.block.line,
            key: key.to_owned(),
        };
        self.find(key).ok_or_else(missing)
    }

    pub(super) fn impossible(&self, key: &str, reason: impl Into<String>) -> ImportError {
        let (line, value) = self.find(key).map_or((self.block.line, "nothing".to_owned()), |located| {
            let value = match &located.value {
                Value::Number(number) => number.to_string(),
                Value::Word(word) => word.clone(),
                Value::Source(file) => format!("source {file}"),
                Value::List(values) => format!("a list of {}", values.len()),
                Value::Block(block) => format!("a block {}", block.kind),
            };
            (located.line, value)
        });
        let (file, key, reason) = (self.file.to_owned(), key.to_owned(), reason.into());
        ImportError::Value { file, line, key, value, reason }
    }

    pub(super) fn block(&self, key: &str, kind: &str) -> Result<Fields<'a>, ImportError> {
        match &self.get(key)?.value {
            Value::Block(block) if block.kind == kind => Ok(Fields { file: self.file, block }),
            _ => Err(self.impossible(key, format!("must be a block {kind}"))),
        }
    }

    pub(super) fn word(&self, key: &str) -> Result<&'a str, ImportError> {
        match &self.get(key)?.value {
            Value::Word(word) => Ok(word),
            _ => Err(self.impossible(key, "must be a word")),
        }
    }

    pub(super) fn list(&self, key: &str) -> Result<&'a [Located], ImportError> {
        match &self.get(key)?.value {
            Value::List(values) => Ok(values),
            _ => Err(self.impossible(key, "must be a list")),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, ImportError> {
        match self.get(key)?.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.impossible(key, "must be a number")),
        }
    }

    pub(super) fn whole(&self, key: &str, low: u32, high: u32) -> Result<u32, ImportError> {
        let number = self.number(key)?;
        whole(number)
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| self.impossible(key, format!("must be a whole number from {low} to {high}")))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, ImportError> {
        Ok(self.whole(key, 0, 1)? == 1)
    }

    /// A time in milliseconds, at most 10 s.
    pub(super) fn milliseconds(&self, key: &str) -> Result<f64, ImportError> {
        let number = self.number(key)?;
        if (0.0..=1e4).contains(&number) {
            Ok(number)
        } else {
            Err(self.impossible(key, "must be 0 to 10000 ms"))
        }
    }

    pub(super) fn time(&self, key: &str) -> Result<Nanos, ImportError> {
        let milliseconds = self.milliseconds(key)?;
        Nanos::from_millis(milliseconds).ok_or_else(|| self.impossible(key, "must be a time"))
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, ImportError> {
        let number = |located: &Located| match located.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.impossible(key, "must be a list of numbers")),
        };
        self.list(key)?.iter().map(number).collect()
    }

    pub(super) fn wholes(&self, key: &str) -> Result<Vec<u64>, ImportError> {
        let numbers = self.numbers(key)?.into_iter().map(|number| whole(number).map(u64::from));
        numbers
            .collect::<Option<_>>()
            .ok_or_else(|| self.impossible(key, "must be a list of whole numbers below 2^32"))
    }
}

fn whole(number: f64) -> Option<u32> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and within the bounds")]
    let whole = number as u32;
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(whole)
}
