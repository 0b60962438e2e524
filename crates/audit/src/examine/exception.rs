//! Findings that do not count. Invariants: an exception has a reason, and never hides an unfinished move or
//! unreadable data.

use crate::{Code, Exception, Kind, Reason, rule};
use glob::{Pattern, PatternError};

/// Findings that do not count on the targets whose names match, and why.
#[derive(Clone, Debug)]
pub struct TargetException {
    targets: Option<Pattern>,
    exception: Exception,
}

/// Why there is no such exception.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ExceptionError {
    #[error("no rule has the code '{0}'; 'straddle explain --list' lists the codes")]
    UnknownRule(String),
    #[error("{0} cannot be ignored, because an unfinished move must be resumed or rolled back")]
    UnfinishedMove(Code),
    #[error("{0} cannot be ignored, because nothing is known about data that cannot be read")]
    Unreadable(Code),
    #[error("the reason must not be empty")]
    NoReason,
    #[error("the pattern '{pattern}' is not valid")]
    Pattern { pattern: String, source: PatternError },
    #[error("a partition number must be at least 1")]
    NoPartition,
}

straddle_units::error_kind!(ExceptionError: Usage);

impl TargetException {
    /// Returns the exception for `rule` on `targets`, a glob (`*` matches `/` too), and one partition or all.
    pub fn new(
        rule: &str,
        targets: Option<&str>,
        partition: Option<u32>,
        reason: Reason,
    ) -> Result<Self, ExceptionError> {
        let found = self::rule(rule).ok_or_else(|| ExceptionError::UnknownRule(rule.to_owned()))?;
        let code = found.code;
        if code == Code::S047 {
            return Err(ExceptionError::UnfinishedMove(code));
        }
        if found.kind == Kind::Unreadable {
            return Err(ExceptionError::Unreadable(code));
        }
        if reason.text.trim().is_empty() {
            return Err(ExceptionError::NoReason);
        }
        if partition == Some(0) {
            return Err(ExceptionError::NoPartition);
        }
        let parsed = |pattern: &str| {
            Pattern::new(plain(pattern))
                .map_err(|source| ExceptionError::Pattern { pattern: pattern.to_owned(), source })
        };
        let targets = targets.map(parsed).transpose()?;
        Ok(Self { targets, exception: Exception { code, partition, reason: reason.into() } })
    }

    /// Whether it is about the target of this name.
    fn is_for(&self, target: &str) -> bool {
        self.targets.as_ref().is_none_or(|pattern| pattern.matches(plain(target)))
    }
}

fn plain(name: &str) -> &str {
    name.trim_start_matches("./")
}

pub(crate) fn on(exceptions: &[TargetException], target: &str) -> Vec<Exception> {
    exceptions.iter().filter(|one| one.is_for(target)).map(|one| one.exception.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn exception(rule: &str, targets: Option<&str>, reason: &str) -> Result<TargetException, ExceptionError> {
        let reason = Reason { text: reason.to_owned(), source: "here".to_owned() };
        TargetException::new(rule, targets, None, reason)
    }

    #[test]
    fn a_pattern_is_for_names_as_given() {
        for (pattern, name, matches) in [
            ("*.qcow2", "vm.qcow2", true),
            ("*.qcow2", "build/vm.qcow2", true),
            ("*.qcow2", "vm.img", false),
            ("build/*.img", "./build/a.img", true),
            ("./build/*.img", "build/a.img", true),
            ("a.img", "build/a.img", false),
            ("/dev/sd?", "/dev/sda", true),
            ("/dev/sd[ab]", "/dev/sdc", false),
        ] {
            let exception = exception("S001", Some(pattern), "why").unwrap();
            assert_eq!(exception.is_for(name), matches, "{pattern} {name}");
        }
        assert!(exception("s001", None, "why").unwrap().is_for("anything"));
    }

    #[test]
    fn what_must_be_seen_stays() {
        for rule in crate::RULES {
            let is_taken = exception(rule.code.as_str(), None, "why").is_ok();
            assert_eq!(is_taken, !["S047", "S081"].contains(&rule.code.as_str()), "{}", rule.code);
        }
        assert!(matches!(exception("S999", None, "why"), Err(ExceptionError::UnknownRule(_))));
        assert!(matches!(exception("S001", None, " \n"), Err(ExceptionError::NoReason)));
        assert!(matches!(exception("S001", Some("a[.img"), "why"), Err(ExceptionError::Pattern { .. })));
    }
}
