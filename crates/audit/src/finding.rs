//! Findings, their fixes, and the list that an audit makes of them.
//!
//! Invariants: a list of findings comes from [`run`](crate::run) only; none is removed, replaced or reordered
//! afterwards.

use std::ops::Deref;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_layout::{Partition, Role, Stack};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::catalogue::Code;
pub(crate) use crate::catalogue::{About, Kind, Rule, Severity};
use crate::way::{self, Step};

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(into = "Option<u32>")]
#[schemars(with = "u32", inline)]
pub enum Subject {
    /// The disk as a whole, or its table.
    Disk,
    /// The partition with this number.
    Partition(u32),
}

impl From<Subject> for Option<u32> {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Disk => None,
            Subject::Partition(number) => Some(number),
        }
    }
}

/// A boundary that a position misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Miss {
    /// The name of the boundary: "physical sector", "indirection unit", …
    #[serde(rename = "boundary")]
    pub name: &'static str,
    /// The boundary.
    #[serde(flatten)]
    pub boundary: Boundary,
    /// The distance in bytes from the previous boundary; never zero.
    #[serde(rename = "past_bytes")]
    pub past: ByteCount,
}

impl Miss {
    /// Returns how far `at` misses the boundary of this name; `None` if it does not.
    pub(crate) fn of(name: &'static str, boundary: Boundary, at: ByteOffset) -> Option<Self> {
        let past = boundary.past(at);
        (past != ByteCount::ZERO).then_some(Self { name, boundary, past })
    }
}

/// What a command does to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It writes a partition table, perhaps after data were moved.
    Table,
    /// It writes a partition table, and makes the swap in a partition again.
    Swap,
    /// It writes a copy to another target, or plans that, and reads this one as it is.
    Copy,
    /// It writes neither a table nor a copy.
    Other,
}

/// One command line that fixes a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Command {
    /// The program that the command line runs.
    pub tool: &'static str,
    /// The command line, ready to paste into a POSIX shell.
    pub line: String,
    /// What it does.
    #[serde(skip)]
    pub effect: Effect,
}

impl Command {
    pub(crate) fn of_table(tool: &'static str, line: String) -> Self {
        Self { tool, line, effect: Effect::Table }
    }

    pub(crate) fn of_copy(line: String) -> Self {
        Self { tool: "straddle", line, effect: Effect::Copy }
    }

    pub(crate) fn other(tool: &'static str, line: String) -> Self {
        Self { tool, line, effect: Effect::Other }
    }
}

/// What the commands of a fix do to stored data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Nothing: the data is kept, and does not move.
    Safe,
    /// Data can be lost, or has to be restored; make a backup first.
    Backup,
    /// All data on the devices or partitions named in the commands is lost.
    Destroys,
}

impl Risk {
    /// The warning to print before the commands, in one sentence.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Safe => None,
            Self::Backup => Some("back up first"),
            Self::Destroys => Some("THIS REFORMATS: EVERYTHING ON DEVICE IS LOST; back up first"),
        }
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Safe => "safe",
            Self::Backup => "backup",
            Self::Destroys => "destroys",
        })
    }
}

/// How a finding is fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fix {
    /// The fix in one sentence.
    pub summary: String,
    /// The commands of the fix, in the order in which to run them; empty if no command can fix the problem.
    /// Pasting all of them at once does not make anything worse.
    pub commands: Vec<Command>,
    /// The effect of the commands on stored data; absent if there are no commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What to consider before running any of the commands; absent if there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
}

impl Fix {
    pub(crate) fn advice(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), commands: Vec::new(), risk: None, caution: None }
    }

    /// The warning to print before the commands, in one sentence.
    pub fn warning(&self) -> Option<&'static str> {
        self.risk.and_then(Risk::warning)
    }

    /// Whether one of its commands writes a partition table, here or on a copy.
    pub fn writes_table(&self) -> bool {
        self.commands.iter().any(|command| command.effect != Effect::Other)
    }

    pub(crate) fn without_commands(&mut self) {
        *self = Self::advice(std::mem::take(&mut self.summary));
    }
}

/// A place where a finding shows, or where it is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Another path on the same target, named by the partition or the device that it starts from.
    Way(String),
    /// Another target of the run.
    Target(String),
}

/// Why findings do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// Why it does not count, in the user's own words.
    #[serde(rename = "reason")]
    pub text: String,
    /// Where the reason is written: the file and its line, such as `.straddle.toml:3`.
    pub source: String,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text, self.source)
    }
}

/// Where a finding is reported. It is true in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Among the findings of its target.
    Here,
    /// In a finding about the same thing, at this place.
    At(Place),
    /// Among what is ignored on its target, and why. It does not count.
    Ignored(Arc<Reason>),
    /// Nowhere: its rule was not asked for.
    NotAsked,
    /// Nowhere: its subject is another partition than the one asked for.
    Outside,
}

/// A finding that causes others: its rule, subject and target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cause {
    /// The code of the finding's rule.
    pub code: Code,
    /// The number of the finding's partition; absent for findings on the whole disk.
    #[serde(rename = "partition", skip_serializing_if = "is_disk")]
    pub subject: Subject,
    /// The finding's target, if that is another target of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

fn is_disk(subject: &Subject) -> bool {
    *subject == Subject::Disk
}

impl Cause {
    pub(crate) fn of(finding: &Finding) -> Self {
        Self { code: finding.rule.code, subject: finding.subject, target: None }
    }
}

/// One finding of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Rule,
    /// Its severity here: the rule's own, or less if nothing that is written can suffer.
    pub severity: Severity,
    /// Its subject.
    pub subject: Subject,
    /// The layer concerned, as the path from the partition up; empty for the disk, its table, and placement.
    pub layer: Vec<Step>,
    /// The offset on the disk at which it shows.
    pub at: Option<ByteOffset>,
    /// The boundary that is missed, for findings about placement.
    pub miss: Option<Miss>,
    /// The finding in a sentence, with its figures.
    pub message: String,
    /// Its fix, if there is one.
    pub fix: Option<Fix>,
    /// Another fix; it has commands. Never both.
    pub alternative: Option<Fix>,
    /// The findings from which it merely follows: the fix is given there, and not here.
    pub follows: Vec<Cause>,
    /// Where it is reported.
    pub reported: Reported,
    /// The other places where it shows, if it is reported here for several.
    pub also: Vec<Place>,
}

impl Finding {
    pub(crate) fn new(rule: &'static Rule, subject: Subject, message: String) -> Self {
        Self {
            rule,
            severity: rule.severity,
            subject,
            layer: Vec::new(),
            at: None,
            miss: None,
            message,
            fix: None,
            alternative: None,
            follows: Vec::new(),
            reported: Reported::Here,
            also: Vec::new(),
        }
    }

    pub(crate) fn on_disk(rule: &'static Rule, at: Option<ByteOffset>, message: String) -> Self {
        Self { at, ..Self::new(rule, Subject::Disk, message) }
    }

    pub(crate) fn on_partition(rule: &'static Rule, number: u32, at: ByteOffset, message: String) -> Self {
        Self { at: Some(at), ..Self::new(rule, Subject::Partition(number), message) }
    }

    /// Whether what is written from there on is misaligned. An end misaligns nothing.
    pub fn misaligns(&self) -> bool {
        self.rule.kind == Kind::Alignment
            && self.rule.code != Code::END_STRADDLES
            && self.severity > Severity::Advice
    }

    /// The misaligned start that it reports; `None` for findings that cost writes nothing.
    pub(crate) fn shifting_start(&self) -> Option<ByteOffset> {
        self.at.filter(|_| self.miss.is_some() && self.misaligns())
    }

    /// The path to the layer concerned as shown (`partition 1 > PV vg > LV vg/root`), if there is one.
    pub fn way(&self) -> Option<String> {
        (!self.layer.is_empty()).then(|| way::label(&self.layer))
    }

    /// Its message, followed by the other places where it shows.
    pub fn sentence(&self) -> String {
        let mut text = self.message.clone();
        let mut targets = Vec::new();
        let also = if self.severity == Severity::Advice { "also" } else { "also reached through" };
        for place in &self.also {
            match place {
                Place::Way(way) => text += &format!("; {also} {way}"),
                Place::Target(name) => targets.push(name.as_str()),
            }
        }
        if !targets.is_empty() {
            text += &format!("; also seen on {}", targets.join(", "));
        }
        text
    }

    pub(crate) fn fixes(&self) -> impl Iterator<Item = &Fix> {
        self.fix.iter().chain(&self.alternative)
    }

    pub(crate) fn fixes_mut(&mut self) -> impl Iterator<Item = &mut Fix> {
        self.fix.iter_mut().chain(&mut self.alternative)
    }

    pub(crate) fn unfixed(&mut self) {
        (self.fix, self.alternative) = (None, None);
    }

    pub(crate) fn missing(mut self, miss: Miss) -> Self {
        self.miss = Some(miss);
        self
    }

    pub(crate) fn fixed_by(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// Every finding on a target, wherever it is reported, with the partitions that were audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// Outside this module, findings are only marked, and added by an audit that knows more.
    pub(crate) list: Vec<Finding>,
    pub(crate) partitions: Vec<(u32, Part)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Container,
    Unread,
    Data,
}

impl Findings {
    pub(crate) fn of(list: Vec<Finding>, partitions: &[Partition]) -> Self {
        let part = |partition: &Partition| match partition.role {
            Role::Extended => Part::Container,
            _ if Stack::unread(partition).is_some() => Part::Unread,
            _ => Part::Data,
        };
        let partitions = partitions.iter().map(|partition| (partition.number, part(partition))).collect();
        Self { list, partitions }
    }

    pub(crate) fn has_commands(&self) -> bool {
        self.iter().flat_map(Finding::fixes).any(|fix| !fix.commands.is_empty())
    }

    pub(crate) fn withhold_commands(&mut self, would_harm: impl Fn(&Fix) -> bool) {
        for finding in &mut self.list {
            finding.alternative.take_if(|fix| would_harm(fix));
            finding.fix.iter_mut().filter(|fix| would_harm(fix)).for_each(Fix::without_commands);
        }
    }

    /// The commands of each `wanted` fix become one; `joined` receives them joined by `&&`.
    pub(crate) fn join_commands(&mut self, wanted: impl Fn(&Fix) -> bool, joined: impl Fn(&str) -> String) {
        for finding in &mut self.list {
            for fix in finding.fixes_mut().filter(|fix| wanted(fix)) {
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
