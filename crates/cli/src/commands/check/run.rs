//! What all targets of a run share.

use std::path::Path;
use std::sync::Arc;

use straddle_device::image::Limits;
use straddle_examine::{Alongside, Examiner, Options, Price};

use crate::args::CheckArguments;
use crate::output::Styles;

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
    pub(super) arguments: CheckArguments,
    pub(super) form: Form,
    pub(super) styles: Styles,
}

impl Run {
    pub(super) fn new(arguments: &CheckArguments, form: Form, styles: Styles) -> Arc<Self> {
        let arguments = arguments.clone();
        let targets = arguments.targets.clone();
        let options = Options {
            open: straddle_device::Options {
                sysroot: arguments.captured().map(Path::to_owned),
                assume: arguments.assume.clone().or_else(|| arguments.measured.clone()).unwrap_or_default(),
                logical: arguments.logical,
                format: arguments.format,
                allow_backing: arguments.allow_backing.clone(),
                read_through: Some(Limits::default()),
            },
            page: arguments.page,
            only: arguments.only.clone(),
            ignore: arguments.ignore.clone(),
            alongside: if targets.is_empty() { Alongside::Everything } else { Alongside::These(targets) },
            price: arguments.cost.clone().map(|pricing| Arc::new(pricing) as Arc<dyn Price>),
        };
        Arc::new(Self { examiner: Examiner::new(options), arguments, form, styles })
    }
}
