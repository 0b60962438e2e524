//! The commands, a file each.

pub(crate) mod check;
mod efficiency;
mod explain;
mod generate;

use crate::args::{Arguments, Command};
use crate::exit::Exit;
use crate::output::{self, Styles};
use crate::schema;

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let styles = Styles::choose(arguments.color);
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments, check::Form::Audit, styles),
        Command::Map(arguments) => check::run(arguments, check::Form::Map, styles),
        Command::Explain(explain) => explain::run(explain, styles),
        Command::Efficiency(efficiency) => efficiency::run(efficiency),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { command, dir } => generate::man(command.as_deref(), dir.as_deref()),
        Command::Schema => {
            output::print_json(&schema::json_schema())?;
            Ok(Exit::Aligned)
        }
    }
}
