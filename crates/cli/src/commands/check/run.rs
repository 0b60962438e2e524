//! What all targets of a run share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use straddle_audit::examine::{Alongside, Examiner, Options, Price};
use straddle_device::image::Limits;

use super::subject::Subject;
use crate::args::CheckArguments;
use crate::config::Config;
use crate::exit::UsageError;
use crate::output;
use crate::target;
use crate::target::{Assumed, ReadTarget};

/// What is printed for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `check`: its partitions, and the findings with their fixes.
    Audit,
    /// `map`: a drawing of the layers, with the codes of the findings beside them.
    Map,
}

/// What all targets of a run share.
pub(super) struct Run {
    pub(super) examiner: Examiner,
    /// Those for targets with a topology of their own.
    own: Vec<(PathBuf, Examiner)>,
    pub(super) arguments: CheckArguments,
    pub(super) form: Form,
}

impl Run {
    pub(super) fn new(config: Config, form: Form) -> Result<Arc<Self>> {
        let Config { arguments, exceptions } = config;
        let paths = ReadTarget::paths(&arguments.targets);
        let (of_one, of_all): (Vec<&Assumed>, Vec<&Assumed>) =
            arguments.assume.iter().partition(|assumed| assumed.of.is_some());
        if of_all.len() > 1 {
            return Err(UsageError("--assume: more than one topology for all targets".to_owned()).into());
        }
        let of_all = of_all.first().map(|assumed| assumed.assume.clone());
        let options = Options {
            open: straddle_device::Options {
                sysroot: arguments.captured().map(Path::to_owned),
                assume: of_all.or_else(|| arguments.measured.clone()).unwrap_or_default(),
                logical: arguments.logical,
                format: arguments.format,
                allow_backing: arguments.allow_backing.clone(),
                read_through: Some(Limits::default()),
                no_wake: arguments.no_wake,
            },
            page: arguments.page,
            platform: arguments.platform,
            only: arguments.only.clone(),
            ignore: arguments.ignore.clone(),
            exceptions,
            alongside: match arguments.is_of_this_machine() {
                true => Alongside::Everything,
                false => Alongside::These(paths.clone()),
            },
            fetch_time: Some(Duration::from_secs(arguments.time_limit)),
            moves: Some(straddle_repair::moves::of),
            price: arguments.cost.clone().map(|pricing| Arc::new(pricing) as Arc<dyn Price>),
        };
        let examiner = Examiner::new(options);
        let mut own: Vec<(PathBuf, Examiner)> = Vec::new();
        for Assumed { of, assume } in of_one {
            let Some(path) = of.clone() else { continue };
            let shown = output::printable(&path.display().to_string());
            if !paths.contains(&path) {
                return Err(UsageError(format!("--assume: {shown} is not one of the targets")).into());
            }
            if own.iter().any(|(known, _)| *known == path) {
                return Err(UsageError(format!("--assume: more than one topology for {shown}")).into());
            }
            own.push((path, examiner.assuming(assume.clone())));
        }
        Ok(Arc::new(Self { examiner, own, arguments, form }))
    }

    /// The examiner for the target at `path`.
    pub(super) fn examiner_for(&self, path: &Path) -> &Examiner {
        let own = self.own.iter().find(|(of, _)| of == path || target::device(of.clone()) == path);
        own.map_or(&self.examiner, |(_, examiner)| examiner)
    }

    /// Returns the exceptions for the target of this name, by index.
    pub(super) fn exceptions_for(&self, target: &str) -> impl Iterator<Item = usize> {
        let exceptions = self.examiner.options().exceptions.iter().enumerate();
        exceptions.filter(move |(_, one)| one.is_for(target)).map(|(index, _)| index)
    }

    /// Prints a warning for each exception that is about no finding of the run; `met` are the others.
    pub(super) fn warn_of_stale(&self, subjects: &[Subject], met: &BTreeSet<usize>) {
        let exceptions = self.examiner.options().exceptions.iter().enumerate();
        for (_, one) in exceptions.filter(|(index, _)| !met.contains(index)) {
            let exception = one.exception();
            let is_for_one = subjects.iter().any(|subject| one.is_for(&subject.name()));
            let place = exception.partition.map_or(String::new(), |number| format!(" of partition {number}"));
            let on = one.targets().map_or(String::new(), |glob| format!(" on {glob}"));
            let what = if is_for_one { "such finding" } else { "such target" };
            let (source, code) = (&exception.reason.source, exception.code);
            output::complain(&output::printable(&format!(
                "{source}: nothing to ignore as {code}{place}{on}: no {what} in this run"
            )));
        }
    }
}
