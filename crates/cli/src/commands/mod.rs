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
mod instead;
mod lab;
pub(crate) mod plan;
mod probe;
mod realign;
mod report;
mod reproduce;
mod saved;
mod serve;
mod sim;
mod trace;

use crate::args::{Arguments, Command};
use crate::exit::Exit;
use crate::output::{self, Styles};
use crate::view::json::schema;

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let styles = Styles::choose(arguments.color);
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments, check::Form::Audit, styles),
        Command::Map(arguments) => check::run(arguments, check::Form::Map, styles),
        Command::Report(report) => report::run(report, styles),
        Command::Explain(explain) => explain::run(explain, styles),
        Command::Plan(plan) => plan::run(plan, styles),
        Command::Apply(apply) => apply::apply(apply, styles),
        Command::Realign(realign) => realign::run(realign, styles),
        Command::Resume(resume) => realign::resume(resume),
        Command::Undo(undo) => apply::undo(undo),
        Command::Efficiency(efficiency) => efficiency::run(efficiency),
        Command::Bench(bench) => bench::run(bench, styles),
        Command::Probe(probe) => probe::run(probe, styles),
        Command::Drive(drive) => drive::run(drive, styles),
        Command::Trace(trace) => trace::run(trace, styles),
        Command::Sim(sim) => sim::run(sim, styles),
        Command::Serve(serve) => serve::run(serve),
        Command::Lab(lab) => lab::run(lab),
        Command::Reproduce(reproduce) => reproduce::run(reproduce, styles),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { command, dir } => generate::man(command.as_deref(), dir.as_deref()),
        Command::Schema { command } => {
            output::print_json(&schema::json_schema(*command))?;
            Ok(Exit::Success)
        }
    }
}
