//! What `straddle` does, and what `straddle-lab` shares with it: the arguments, where output goes, the views.
//!
//! Invariants: it translates. Arguments become options, a domain crate is called once, and its answer becomes text,
//! JSON and an exit code.

pub mod args;
mod commands {
    //! The commands, one file each: what their arguments are, and what they do.

    pub(crate) mod apply;
    pub(crate) mod at_boot;
    pub(crate) mod bench;
    pub(crate) mod check;
    pub(crate) mod copy;
    pub(crate) mod drive;
    pub(crate) mod efficiency;
    pub(crate) mod explain;
    pub(crate) mod generate;
    pub(crate) mod lab;
    pub(crate) mod plan;
    pub(crate) mod probe;
    pub(crate) mod realign;
    pub(crate) mod report;
    pub(crate) mod sim;
    pub(crate) mod trace;
}
mod config;
mod durability;
pub mod exit;
mod fleet;
mod input;
mod measured;
pub mod output;
pub mod output_file;
pub mod progress;
pub mod recording;
mod shared;
pub mod target;
mod topics;
pub mod view;

use std::process::ExitCode;
use std::sync::Arc;

use crate::args::{Arguments, Command, as_options};
use crate::commands::{
    apply, bench, check, drive, efficiency, explain, generate, lab, plan, probe, realign, report, sim, trace,
};
use crate::exit::{Errors, Exit};
use crate::view::json;

/// Runs a program: the command of this process's arguments. Returns its exit code.
pub fn start(run: fn(&Arguments) -> anyhow::Result<Exit>, errors: Errors) -> ExitCode {
    straddle_device::ioctl::names::without_modules();
    // Writing past a limit on file sizes (ulimit -f) is an error, EFBIG. The signal would end a run between two
    // writes.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let ran = Arguments::parse_words(&as_options(std::env::args_os()))
        .map_or_else(exit::of_command_line, |arguments| run(&arguments));
    let exit = ran.unwrap_or_else(|error| exit::of_error(&error, errors));
    ExitCode::from(exit.code())
}

/// Runs the command that the arguments name, or `straddle-lab` if it is one of its.
///
/// # Errors
///
/// Returns why the command failed; `exit::of_error` prints it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.of_lab().is_some() {
        return lab::start();
    }
    arguments.choose_colour();
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments, check::Form::Audit),
        Command::Map(arguments) => check::run(&arguments.check, check::Form::Map),
        Command::Report(report) => report::run(report),
        Command::Explain(explain) => explain::run(explain),
        Command::Plan(plan) => plan::run(plan),
        Command::Apply(apply) => apply::apply(apply),
        Command::Realign(realign) => realign::run(realign),
        Command::Resume(resume) => realign::resume(resume),
        Command::Undo(undo) => apply::undo(undo),
        Command::Efficiency(efficiency) => efficiency::run(efficiency),
        Command::Bench(bench) => bench::run(bench),
        Command::Probe(probe) => probe::run(probe),
        Command::Drive(drive) => drive::run(drive),
        Command::Trace(trace) => trace::run(trace),
        Command::Sim(sim) => sim::run(sim),
        Command::Serve(_) | Command::Lab(_) | Command::Reproduce(_) => lab::start(),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { command, dir } => generate::man(command.as_deref(), dir.as_deref()),
        Command::Schema { command } => {
            json::json_schema(*command).map_or_else(lab::start, |schema| output::print_json(&schema))
        }
    }
}
