//! The command line: the one definition that parser, help, man pages and completions come from.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use straddle_device::Assume;
use straddle_device::image::Format;
use straddle_units::{BlockSize, ByteCount, KERNEL_SECTOR, Lba, parse_size};

use crate::commands::apply::{ApplyArguments, UndoArguments};
use crate::commands::bench::BenchArguments;
use crate::commands::check::{CheckArguments, MapArguments};
use crate::commands::drive::DriveArguments;
pub use crate::commands::drive::FitArguments;
use crate::commands::efficiency::EfficiencyArguments;
use crate::commands::explain::ExplainArguments;
pub use crate::commands::lab::{
    EXPERIMENTS, LabArguments, OfLab, ReproduceArguments, ServeArguments, TearName,
};
use crate::commands::plan::PlanArguments;
use crate::commands::probe::ProbeArguments;
use crate::commands::realign::{RealignArguments, ResumeArguments};
use crate::commands::report::ReportArguments;
use crate::commands::sim::SimArguments;
use crate::commands::trace::TraceArguments;
pub use crate::view::json::SchemaOf;
use crate::{exit, target};

const EXAMPLES: &str = "\
Examples:
  straddle check                          # every disk of this machine
  straddle check disk.img                 # an image
  straddle explain S001                   # a finding with its cost and fix
  straddle realign /dev/sdb               # plan a move; nothing is written
  straddle bench random-write wd10ears    # the cost on a modelled drive";

const STATUSES: &[(u8, &str)] = &[
    (0, "success; for check, map and report: no findings, or only advice"),
    (1, "findings were reported, or sectors could not be read (apply of a copy)"),
    (3, "a target could not be read or checked, or a figure was not reproduced"),
    (4, "refused for safety"),
];

const GROUPS: [(&str, &[&str]); 5] = [
    ("Audit", &["check", "map", "report", "explain"]),
    ("Fix", &["realign", "plan", "apply", "undo", "resume"]),
    ("Measure", &["bench", "probe", "trace", "sim", "drive", "efficiency"]),
    (LABORATORY, &["lab", "serve", "reproduce"]),
    ("Other", &["completions", "man", "schema"]),
];

const LABORATORY: &str = "Laboratory";

/// Returns the template of the main help: clap has one list of commands only.
fn template(is_lab: bool) -> String {
    let all = Command::augment_subcommands(clap::Command::new("straddle"));
    let about = match is_lab {
        true => {
            "Runs the laboratory commands of straddle, and 'drive fit'.\n'straddle lab' starts 'straddle-lab \
             lab'.\n\n"
        }
        false => "{about-with-newline}\n",
    };
    let mut text = format!("{about}{{usage-heading}} {{usage}}\n");
    for (group, names) in GROUPS.iter().filter(|(group, _)| !is_lab || *group == LABORATORY) {
        text += &format!("\n{group}:\n");
        for name in *names {
            let about = all.find_subcommand(name).and_then(clap::Command::get_about);
            text += &format!("  {name:<11}  {}\n", about.map(ToString::to_string).unwrap_or_default());
        }
    }
    text + "\nOptions:\n{options}" + if is_lab { "" } else { "{after-help}" }
}

/// Finds, explains and fixes misaligned partitions, down to the byte.
#[derive(Debug, Parser)]
#[command(name = "straddle", version, arg_required_else_help = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
#[command(max_term_width = 80, disable_help_subcommand = true)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour the output: always, never, or auto (on a terminal, unless NO_COLOR is set).
    #[arg(long, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) color: Colour,
}

impl Arguments {
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        // Describing all commands takes time, which only help, errors and `COMMAND --color` need.
        Self::try_parse_from(words).or_else(|error| {
            let command = match error.kind() {
                DisplayVersion => return Err(error),
                DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand => {
                    let program = words.first().and_then(|path| Path::new(path).file_name());
                    Self::described()
                        .help_template(template(program.is_some_and(|name| name == "straddle-lab")))
                }
                _ => Self::described(),
            };
            Self::from_arg_matches(&command.try_get_matches_from(words)?)
        })
    }

    /// Returns the definition in which each command has `--color`: clap copies it into all of them.
    pub(crate) fn described() -> clap::Command {
        Self::command().mut_arg("color", |color| color.global(true))
    }
}

/// Returns the words of a command line, with `help COMMAND` as `COMMAND --help`, and `bench TARGET` as `bench
/// random-write TARGET`.
pub fn as_options(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    let is_target =
        |word: &OsString| target::is_target(Path::new(word)) || target::misspelt(Path::new(word)).is_some();
    if words.get(1).is_some_and(|word| word == "bench")
        && words.get(2).is_some_and(is_target)
        && words.get(3).is_none_or(|word| word.to_string_lossy().starts_with('-'))
    {
        words.insert(2, "random-write".into());
    }
    words
}

pub(crate) fn partition_number(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be a partition number".to_owned())
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands; the options of one are defined when it is run or described. A doc comment of its arguments
/// would then replace what is said here.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Check the alignment of disks and images.
    Check(Box<CheckArguments>),
    /// Draw the layout of disks and images to scale.
    Map(Box<MapArguments>),
    /// Merge the audits of many hosts into one report.
    Report(Box<ReportArguments>),
    /// Explain a finding, a term, an old tool or an error message.
    Explain(Box<ExplainArguments>),
    /// Plan an aligned partition table.
    Plan(Box<PlanArguments>),
    /// Plan how to move misaligned partitions with their data.
    Realign(Box<RealignArguments>),
    /// Carry out a plan: write a table, move partitions, or copy a disk.
    Apply(Box<ApplyArguments>),
    /// Complete or roll back an interrupted move.
    Resume(Box<ResumeArguments>),
    /// Restore the table that 'straddle apply' replaced.
    Undo(Box<UndoArguments>),
    /// Compute the share of a track that holds data.
    Efficiency(Box<EfficiencyArguments>),
    /// Measure what misalignment costs on a drive.
    Bench(Box<BenchArguments>),
    /// Find a drive's true sector size and alignment by timing.
    Probe(Box<ProbeArguments>),
    /// List and describe the modelled drives.
    Drive(Box<DriveArguments>),
    /// Count the read-modify-writes of recorded I/O.
    Trace(Box<TraceArguments>),
    /// Replay recorded I/O, optionally shifted, on a modelled drive.
    Sim(Box<SimArguments>),
    /// Serve a modelled drive over NBD or to virtual machines.
    Serve(Box<ServeArguments>),
    /// Run a command in a Linux guest with modelled drives.
    Lab(Box<LabArguments>),
    /// Repeat published experiments on modelled drives.
    Reproduce(Box<ReproduceArguments>),
    /// Print a shell completion script.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell to generate the script for.
        shell: Shell,
    },
    /// Print a man page, or write all of them to a directory.
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Command whose page to print [default: the main page].
        command: Option<String>,
        /// Write all pages to this directory.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of a command's `--json` output.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema {
        /// Command whose schema to print.
        #[arg(value_enum, default_value_t = SchemaOf::Check)]
        command: SchemaOf,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(straddle completions bash)     # in ~/.bashrc
  straddle completions zsh > ~/.zfunc/_straddle
  straddle completions fish > ~/.config/fish/completions/straddle.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  straddle man check | man -l -           # read a page
  straddle man --dir ~/.local/share/man/man8";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  straddle schema > check.schema.json
  straddle schema bench | jq .properties";

pub(crate) fn block_size(text: &str) -> Result<BlockSize, String> {
    let size = parse_size(text).map_err(|e| e.to_string())?;
    BlockSize::new(size.get()).map_err(|e| e.to_string())
}

/// Parses `1MiB`, or `63s` as sectors of 512 bytes.
pub(crate) fn place(text: &str) -> Result<ByteCount, String> {
    let Some(sector) = text.trim().strip_suffix('s').and_then(|sector| sector.parse::<u64>().ok()) else {
        return parse_size(text).map_err(|error| error.to_string());
    };
    let byte = Lba::new(sector).to_bytes(KERNEL_SECTOR);
    byte.map(|byte| ByteCount::new(byte.get())).ok_or_else(|| format!("sector {sector} is beyond byte 2^64"))
}

/// Parses any text, and completes to these names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed(pub(crate) fn() -> Box<dyn Iterator<Item = &'static str>>);

impl TypedValueParser for Completed {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().map(PossibleValue::new)))
    }
}

pub(crate) fn known<T: Clone + Send + Sync>(
    values: &'static [T],
    described: fn(&T) -> PossibleValue,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(described)).try_map(move |name| {
        let known = values.iter().find(|value| described(value).matches(&name, true));
        known.cloned().ok_or("no such value")
    })
}

/// Takes one of these names, which the help describes, for the value beside it.
pub(crate) fn named<T: Clone + Send + Sync>(
    values: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    known(values, |(name, about, _)| PossibleValue::new(*name).help(*about)).map(|(.., value)| value)
}

pub(crate) fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("must be a number from {} to {}", range.start(), range.end()))
    }
}

pub(crate) fn positive_size(text: &str) -> Result<ByteCount, String> {
    match parse_size(text) {
        Ok(ByteCount::ZERO) => Err("must not be zero".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct FormatArguments {
    /// Image format [default: detected]. Specify `raw` to skip detection and treat the file's bytes as the
    /// disk's contents.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SectorArguments {
    /// Drive to align for: a sector format (512n, 512e or 4kn), KEY=SIZE pairs, both (4kn,chunk=512KiB), or a
    /// modelled drive. The keys are those of `straddle check --assume`.
    #[arg(long, value_name = "TOPOLOGY", value_parser = target::topologies(target::assume), hide_possible_values = true)]
    pub(crate) assume: Option<Assume>,

    /// Use the measurements in this file, saved by 'straddle probe', instead of the values that a device
    /// reports.
    #[arg(long, value_name = "FILE", conflicts_with = "assume", value_parser = crate::measured::read)]
    pub(crate) measured: Option<Assume>,
}

impl SectorArguments {
    pub(crate) fn topology(&self) -> Assume {
        self.assume.clone().or_else(|| self.measured.clone()).unwrap_or_default()
    }
}
