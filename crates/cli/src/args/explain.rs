//! The command line of `explain`.

use clap::{Args, Subcommand};
use straddle_units::{ByteCount, parse_size};

use super::{Completed, place, positive_size};
use crate::topics;

/// Examples for `explain --help`.
const EXPLAIN_EXAMPLES: &str = "\
Examples:
  straddle explain                        # list all findings and topics
  straddle explain S001                   # a finding: why, cost, fix, sources
  straddle explain fdisk windows-xp       # old tools, and how to use them right
  straddle explain qlc                    # a term; other words are searched for
  straddle explain \"GPT PMBR size mismatch (131071 != 196607)\"
  straddle explain WD10EARS               # a modelled drive
  straddle explain rmw --offset 63s       # the first block of an old partition";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ExplainArguments {
    /// Codes, topics, modelled drives or error messages. Other words are searched for in rules, topics and the FAQ
    /// [default: list all].
    #[arg(value_name = "CODE|TOPIC", value_parser = Completed(|| Box::new(topics::names())), hide_possible_values = true)]
    pub(crate) words: Vec<String>,

    /// List all findings and topics.
    #[arg(long, conflicts_with = "words")]
    pub(crate) list: bool,

    /// Print JSON (see `straddle schema explain`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Topic to explain instead of a finding.
    #[command(subcommand)]
    pub(crate) topic: Option<Topic>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// Count the physical sectors that writes touch, and their read-modify-writes.
    Rmw(RmwArguments),
}

/// Examples for `explain rmw --help`.
const RMW_EXAMPLES: &str = "\
Examples:
  straddle explain rmw --offset 63s       # 4 KiB at an old start
  straddle explain rmw --offset 1MiB --io 16KiB --physical 16KiB
  straddle explain rmw --offset 31KiB --count 1000 --json";

/// Arguments of `explain rmw`.
#[derive(Debug, Args)]
#[command(after_help = RMW_EXAMPLES)]
pub(crate) struct RmwArguments {
    /// Start of the first write on the device: a byte (31KiB) or a 512-byte sector (63s).
    #[arg(long, value_parser = place, value_name = "PLACE")]
    pub(crate) offset: ByteCount,

    /// Size of each write.
    #[arg(long, value_parser = positive_size, default_value = "4KiB", value_name = "BYTES")]
    pub(crate) io: ByteCount,

    /// Number of consecutive writes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Size of the physical sector (or indirection unit).
    #[arg(long, value_parser = positive_size, default_value = "4096", value_name = "BYTES")]
    pub(crate) physical: ByteCount,

    /// Start of the first physical sector (the drive's alignment offset).
    #[arg(long, value_parser = parse_size, default_value = "0", value_name = "BYTES")]
    pub(crate) phase: ByteCount,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
