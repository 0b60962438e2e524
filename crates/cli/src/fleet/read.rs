//! Reads audits. A document is read as a stream, and only what is counted is kept.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use straddle_audit::examine::CostSource;
use straddle_audit::{Risk, Severity, Status};

use crate::fleet::Skipped;
use crate::input::{below, is_stdin, open};
use straddle_audit::form::check::SCHEMA;

/// The bytes that an audit may have: those of 30,000 disks.
const MAX_AUDIT: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    #[serde(rename = "schema")]
    _schema: Version,
    #[serde(rename = "straddle")]
    _straddle: IgnoredAny,
    pub(super) host: Option<String>,
    pub(super) targets: Vec<Target>,
}

#[derive(Debug)]
struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let version = u64::deserialize(deserializer)?;
        if version == u64::from(SCHEMA) {
            return Ok(Self);
        }
        Err(D::Error::custom(format!(
            "the audit uses schema {version}, but this version of straddle reads schema {SCHEMA}"
        )))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Target {
    pub(super) target: String,
    pub(super) status: Status,
    pub(super) misaligned: Option<Severity>,
    pub(super) device: Option<Device>,
    pub(super) error: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Device {
    pub(super) kind: String,
    pub(super) vendor: Option<String>,
    pub(super) model: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Finding {
    pub(super) code: String,
    pub(super) severity: Severity,
    pub(super) title: String,
    pub(super) partition: Option<u32>,
    pub(super) cost: Option<Cost>,
    pub(super) fix: Option<Fix>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Fix {
    pub(crate) summary: String,
    pub(crate) commands: Vec<Command>,
    pub(crate) risk: Option<Risk>,
    pub(crate) caution: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Command {
    pub(crate) line: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    pub(super) drive: String,
    pub(super) source: CostSource,
    pub(super) random_write_ratio: f64,
    pub(super) wear_ratio: Option<f64>,
}

/// Returns the files that the arguments name, those of a folder by name, and what cannot be read.
pub(crate) fn inputs(named: &[PathBuf]) -> (Vec<PathBuf>, Vec<Skipped>) {
    let (mut inputs, mut skipped) = (Vec::new(), Vec::new());
    for path in named {
        if !is_stdin(path) && path.is_dir() {
            let mut files = below(path, |folder, error| {
                let why = format!("cannot list the directory: {error}");
                skipped.push(Skipped { name: folder.display().to_string(), why });
            });
            files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
            if files.is_empty() {
                let why = "the directory contains no *.json file".to_owned();
                skipped.push(Skipped { name: path.display().to_string(), why });
            }
            inputs.extend(files);
        } else {
            inputs.push(path.clone());
        }
    }
    (inputs, skipped)
}

/// Reads standard input if `path` is `-`. The error says why, and where in the file.
pub(crate) fn read(path: &Path, mut take: impl FnMut(Document)) -> Result<(), String> {
    let reader = open(path).map_err(|error| format!("cannot open: {error}"))?;
    let left = Rc::new(Cell::new(MAX_AUDIT));
    let limited = Limited { inner: BufReader::new(reader), left: Rc::clone(&left) };
    let mut is_empty = true;
    for document in serde_json::Deserializer::from_reader(limited).into_iter::<Document>() {
        take(document.map_err(|error| reason(&error))?);
        left.set(MAX_AUDIT);
        is_empty = false;
    }
    if is_empty { Err("the file is empty".to_owned()) } else { Ok(()) }
}

fn reason(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Io => format!("cannot read: {error}"),
        serde_json::error::Category::Eof => format!("the file is truncated ({error})"),
        _ => format!("cannot be used as the output of 'straddle check --json' ({error})"),
    }
}

struct Limited<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = u64::try_from(count).ok().and_then(|count| self.left.get().checked_sub(count));
        let Some(left) = left else {
            let message = format!("an audit is larger than {MAX_AUDIT} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        };
        self.left.set(left);
        Ok(count)
    }
}
