//! Generates completions and man pages from the definition of the command line.

mod manual;

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Arguments;
use crate::exit::{self, Exit, UsageError};
use crate::output;
use crate::output_file;

pub(crate) fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "straddle", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Exit::Success)
}

pub(crate) fn man(command: Option<&str>, dir: Option<&Path>) -> Result<Exit> {
    let pages = pages()?;
    if let Some(dir) = dir {
        fs::create_dir_all(dir).with_context(|| format!("{}: cannot create the directory", dir.display()))?;
        for (name, page) in &pages {
            let path = dir.join(format!("{name}.1"));
            output_file::write(&path, page, &[])?;
        }
        return Ok(Exit::Success);
    }
    let wanted = command.map_or_else(|| "straddle".to_owned(), |name| format!("straddle-{name}"));
    let Some((_, page)) = pages.into_iter().find(|(name, _)| *name == wanted) else {
        return Err(UsageError(format!("there is no command '{}'", command.unwrap_or_default())).into());
    };
    let mut out = output::stdout();
    out.write_all(&page)?;
    out.flush()?;
    if std::io::stdout().is_terminal() {
        let command = command.map_or_else(String::new, |name| format!(" {name}"));
        output::complain(&format!("this is the page's source; to read it: straddle man{command} | man -l -"));
    }
    Ok(Exit::Success)
}

/// Returns every man page with its name: `straddle`, `straddle-check`, `straddle-drive-show` and so on.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut main = Arguments::command();
    main.build();
    let mut pages = Vec::new();
    add_pages("straddle", &main, &mut pages)?;
    Ok(pages)
}

fn add_pages(name: &str, command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    // clap requires a `'static` name. Leaking is harmless, as there are only a handful.
    let static_name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    pages.push((name.to_owned(), page(name, command.clone().name(static_name))?));
    for inner in command.get_subcommands() {
        add_pages(&format!("{name}-{}", inner.get_name()), inner, pages)?;
    }
    Ok(())
}

fn page(name: &str, mut command: Command) -> Result<Vec<u8>> {
    let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let mut after = after.unwrap_or_default();
    // The help of these commands leaves them to the page.
    if !after.contains("Exit status:") {
        after = [after.as_str(), &exit::help(exit::OF_OUTPUT)].join("\n\n").trim_start().to_owned();
    }
    command = command.after_help("").after_long_help("");
    let (has_options, has_commands) = (command.get_arguments().next().is_some(), command.has_subcommands());
    let version = command.get_version().is_some();
    let man = Man::new(command.clone());
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    let mut synopsis = Vec::new();
    man.render_synopsis_section(&mut synopsis)?;
    bytes.extend_from_slice(manual::with_values(&String::from_utf8(synopsis)?, &command).as_bytes());
    man.render_description_section(&mut bytes)?;
    if has_options {
        man.render_options_section(&mut bytes)?;
    }
    if has_commands {
        man.render_subcommands_section(&mut bytes)?;
    }
    bytes.extend_from_slice(manual::sections(&after).as_bytes());
    bytes.extend_from_slice(manual::around(name).as_bytes());
    if version {
        man.render_version_section(&mut bytes)?;
    }
    Ok(manual::bold(&String::from_utf8(bytes)?).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's options are defined later than what the list says of it, and change nothing of that.
    #[test]
    fn the_help_of_a_command_begins_as_the_list_does() {
        let listed = Arguments::command();
        let mut built = Arguments::command();
        built.build();
        let about = |command: &Command| {
            let said = |command: &Command| command.get_about().map(ToString::to_string);
            command.get_subcommands().map(said).collect::<Vec<_>>()
        };
        assert_eq!(about(&listed), about(&built));
        assert!(about(&built).len() > 15 && about(&built).iter().all(Option::is_some));
    }

    /// clap would wrap a longer line of an example.
    fn lines_fit(command: &Command) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in after.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
        }
        command.get_subcommands().for_each(lines_fit);
    }

    #[test]
    fn help_fits_into_80_columns_and_its_groups_have_every_command_once() {
        let mut built = Arguments::command();
        built.build();
        lines_fit(&built);
        let help = built.render_help().to_string();
        for command in built.get_subcommands() {
            let line = format!("\n  {:<11}  {}\n", command.get_name(), command.get_about().unwrap());
            assert!(line.chars().count() <= 82 && help.matches(&line).count() == 1, "{line}{help}");
        }
    }
}
