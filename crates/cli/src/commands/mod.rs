//! The commands, one file each.

mod apply;
mod at_boot;
mod bench;
pub(crate) mod check;
mod copy;
mod drive;
mod efficiency;
mod explain;
mod generate;
mod lab;
pub(crate) mod plan;
mod probe;
mod realign;
mod realign_hints;
mod report;
mod saved;
mod sim;
mod trace;

use crate::args::{Arguments, Command};
use crate::exit::Exit;
use crate::output;
use crate::view::json::schema;

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
        Command::Map(arguments) => check::run(arguments, check::Form::Map),
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
        Command::Schema { command } => schema::json_schema(*command).map_or_else(lab::start, |schema| {
            output::print_json(&schema)?;
            Ok(Exit::Success)
        }),
    }
}
