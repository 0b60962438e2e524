//! The result of an audit as one value.
//!
//! The law of this module: a list of findings comes from [`run`](crate::run) only. None is added, removed,
//! replaced or reordered afterwards, so that a verdict takes all of them into account.
//! Outside this crate, two things change: where a finding is reported, and whether its fix keeps its commands.

use std::ops::Deref;

use crate::finding::{Finding, Fix};

/// Every finding on a target, wherever it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// The findings of a complete audit.
    pub(crate) fn complete(findings: Vec<Finding>) -> Self {
        Self(findings)
    }

    /// The findings, to be marked by this crate.
    pub(crate) fn marked(&mut self) -> &mut [Finding] {
        &mut self.0
    }

    /// Removes the commands of the fixes that `would_harm`, and keeps their summaries. Another fix that would
    /// is removed as a whole.
    pub fn withhold_commands(&mut self, would_harm: impl Fn(&Fix) -> bool) {
        for finding in &mut self.0 {
            finding.instead.take_if(|fix| would_harm(fix));
            finding.fix.iter_mut().filter(|fix| would_harm(fix)).for_each(Fix::without_commands);
        }
    }
}

impl Deref for Findings {
    type Target = [Finding];

    fn deref(&self) -> &[Finding] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
