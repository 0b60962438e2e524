//! The result of an audit as one value.
//!
//! Invariants: a list of findings comes from [`run`](crate::run) only. None is added, removed,
//! replaced or reordered afterwards, so that a verdict takes all of them into account.
//! Outside this crate, three things change: where a finding is reported, whether its fix keeps its commands, and
//! whether they are joined in one.

use std::ops::Deref;

use straddle_layout::{Partition, Role, Stack};

use crate::finding::{Finding, Fix};

/// Every finding on a target, wherever it is reported, with the partitions that were audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    partitions: Vec<(u32, Part)>,
}

/// What a partition is to an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// An extended partition.
    Container,
    /// One whose contents are listed by a table that is not read.
    Unread,
    /// Any other.
    Data,
}

impl Part {
    fn of(partition: &Partition) -> Self {
        match partition.role {
            Role::Extended => Self::Container,
            _ if Stack::unread(partition).is_some() => Self::Unread,
            _ => Self::Data,
        }
    }
}

impl Findings {
    /// The findings of a complete audit of these partitions.
    pub(crate) fn complete(list: Vec<Finding>, partitions: &[Partition]) -> Self {
        let partitions = partitions.iter().map(|partition| (partition.number, Part::of(partition))).collect();
        Self { list, partitions }
    }

    /// The findings, to which an audit that knows more adds.
    pub(crate) fn completed(&mut self) -> &mut Vec<Finding> {
        &mut self.list
    }

    /// The findings, to be marked by this crate.
    pub(crate) fn marked(&mut self) -> &mut [Finding] {
        &mut self.list
    }

    /// The audited partitions by number.
    pub(crate) fn partitions(&self) -> &[(u32, Part)] {
        &self.partitions
    }

    /// Removes the commands of the fixes that `would_harm`, and keeps their summaries. Another fix that would
    /// is removed as a whole.
    pub fn withhold_commands(&mut self, would_harm: impl Fn(&Fix) -> bool) {
        for finding in &mut self.list {
            finding.alternative.take_if(|fix| would_harm(fix));
            finding.fix.iter_mut().filter(|fix| would_harm(fix)).for_each(Fix::without_commands);
        }
    }

    /// Makes one command of those of each fix for which `wanted` is true: `joined` receives them as a list that stops
    /// at the first failure.
    pub fn join_commands(&mut self, wanted: impl Fn(&Fix) -> bool, joined: impl Fn(&str) -> String) {
        for finding in &mut self.list {
            for fix in finding.fix.iter_mut().chain(&mut finding.alternative).filter(|fix| wanted(fix)) {
                let lines: Vec<&str> = fix.commands.iter().map(|command| &command.line[..]).collect();
                let line = joined(&lines.join(" && "));
                fix.commands.truncate(1);
                fix.commands.iter_mut().for_each(|command| command.line.clone_from(&line));
            }
        }
    }
}

impl Deref for Findings {
    type Target = [Finding];

    fn deref(&self) -> &[Finding] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
