//! Generates completions and man pages from the definition of the command line.

use std::fmt::Write as _;
use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use straddle_drive::Profile;

use crate::args::Arguments;
use crate::exit::{Exit, usage};
use crate::output::capitalised;
use crate::{exit, output, output_file};

pub(crate) fn completions(shell: Shell) -> Result<Exit> {
    let mut main = Arguments::described();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut main, "straddle", &mut script);
    let mut script = String::from_utf8(script)?;
    match shell {
        Shell::Fish => add_operands("__fish_straddle_using_subcommand", &main, &mut script),
        Shell::Zsh => script = with_files(&script),
        _ => {}
    }
    output::print_bytes(script.as_bytes())
}

/// For operands with known values: clap_complete 4.6 has completions for fish of options only.
fn add_operands(condition: &str, command: &Command, script: &mut String) {
    for inner in command.get_subcommands() {
        let condition = format!("{condition} {}", inner.get_name());
        for operand in inner.get_positionals() {
            let values = operand.get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                let _ =
                    writeln!(script, "complete -c straddle -n \"{condition}\" -a \"{}\"", names.join(" "));
            }
        }
        add_operands(&format!("{condition}; and __fish_seen_subcommand_from"), inner, script);
    }
}

/// Completes files where zsh completes the names of drives: a profile is a file, too.
fn with_files(script: &str) -> String {
    let names = Profile::names().collect::<Vec<_>>().join(" ");
    let either = format!("{{_alternative \"drives\\:drive\\:({names})\" \"files\\:file\\:_files\"}}");
    script.replace(&format!("({names})"), &either)
}

pub(crate) fn man(command: Option<&str>, dir: Option<&Path>) -> Result<Exit> {
    let pages = pages()?;
    if let Some(dir) = dir {
        fs::create_dir_all(dir).with_context(|| format!("{}: cannot create the directory", dir.display()))?;
        for (name, page) in &pages {
            let path = dir.join(format!("{name}.8"));
            output_file::write(&path, page, &[])?;
        }
        return Ok(Exit::Success);
    }
    let wanted = command.map_or_else(|| "straddle".to_owned(), |name| format!("straddle-{name}"));
    let Some((_, page)) = pages.into_iter().find(|(name, _)| *name == wanted) else {
        return usage(format!("unknown command '{}'", command.unwrap_or_default()));
    };
    let printed = output::print_bytes(&page)?;
    if std::io::stdout().is_terminal() {
        let command = command.map_or_else(String::new, |name| format!(" {name}"));
        output::complain(&format!(
            "this is the source of the man page; to read the page: straddle man{command} | man -l -"
        ));
    }
    Ok(printed)
}

/// Returns every man page with its name: `straddle`, `straddle-check`, `straddle-drive-show` and so on.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut main = Arguments::described();
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

fn page(name: &str, command: Command) -> Result<Vec<u8>> {
    let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let mut after = after.unwrap_or_default();
    // The help of these commands leaves them to the page.
    if !after.contains("Exit status:") {
        after = [after.as_str(), &exit::help(exit::OF_OUTPUT)].join("\n\n").trim_start().to_owned();
    }
    let command = command.after_help("").after_long_help("");
    // As of lvm and cryptsetup: all pages of a program are in one section.
    let man = Man::new(command.clone())
        .section("8")
        .date(env!("STRADDLE_DATE"))
        .source(concat!("straddle ", env!("CARGO_PKG_VERSION")))
        .manual("System Administration");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    let mut synopsis = Vec::new();
    man.render_synopsis_section(&mut synopsis)?;
    bytes.extend_from_slice(with_values(&String::from_utf8(synopsis)?, &command).as_bytes());
    man.render_description_section(&mut bytes)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut bytes)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut bytes)?;
    }
    bytes.extend_from_slice(sections(&after).as_bytes());
    bytes.extend_from_slice(around(name).as_bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut bytes)?;
    }
    Ok(bold(&String::from_utf8(bytes)?).into_bytes())
}

/// Returns the sections of a man page for `help`, in roff.
///
/// A line that ends with a colon starts a section if an empty line is before it and indented ones follow;
/// `Exit status:` may also be followed by its text. Indented lines keep their breaks, all others are filled.
fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut lines = help.lines().peekable();
    let (mut is_open, mut is_verbatim, mut is_first) = (false, false, true);
    while let Some(line) = lines.next() {
        let next_is_indented = lines.peek().is_some_and(|next| is_indented(next) || status(next).is_some());
        // The last line of a paragraph may end with a colon, too.
        let heading = line.strip_suffix(':').filter(|_| is_first && !is_indented(line) && next_is_indented);
        is_first = line.trim().is_empty();
        let (heading, rest) = match (heading, line.split_once(": ")) {
            (Some(heading), _) => (Some(heading), ""),
            (None, Some(("Exit status", rest))) => (Some("Exit status"), rest),
            _ => (None, line),
        };
        let verbatim = is_indented(line) && status(line).is_none();
        if is_verbatim && !verbatim {
            roff += ".fi\n.RE\n";
        } else if verbatim && !is_verbatim {
            roff += ".RS 2\n.nf\n";
        }
        is_verbatim = verbatim;
        if heading.is_some() || !is_open {
            let heading = escaped(&heading.unwrap_or("Notes").to_uppercase()).replace('"', "\\(dq");
            let _ = writeln!(roff, ".SH \"{heading}\"");
            is_open = true;
        }
        if let Some((status, meaning)) = status(line) {
            let _ = writeln!(roff, ".TP\n{status}\n{}", escaped(meaning));
        } else if rest.trim().is_empty() {
            roff += if heading.is_none() && !is_verbatim { ".PP\n" } else { "" };
        } else {
            let _ = match rest.strip_prefix("  ").filter(|_| verbatim) {
                Some(rest) => writeln!(roff, "{}", escaped(rest)),
                None if heading.is_some() => writeln!(roff, "{}", escaped(&capitalised(rest))),
                None => writeln!(roff, "{}", escaped(rest)),
            };
        }
    }
    if is_verbatim {
        roff += ".fi\n.RE\n";
    }
    roff
}

fn with_values(synopsis: &str, command: &Command) -> String {
    let mut text = synopsis.to_owned();
    for option in command.get_arguments().filter(|option| !option.is_positional()) {
        let (Some(long), Some(values)) = (option.get_long(), values(option)) else { continue };
        let name = format!("\\fB{}\\fR", escaped(&format!("--{long}")));
        text = text.replace(&format!("<{name}>"), &name).replace(&name, &format!("{name}{values}"));
    }
    text
}

fn values(option: &Arg) -> Option<String> {
    let range = option.get_num_args()?;
    let names = option.get_value_names().filter(|_| range.takes_values())?;
    let names: Vec<String> = names.iter().map(|name| format!("\\fI<{}>\\fR", escaped(name))).collect();
    let names = names.join(" ");
    Some(if range.min_values() == 0 { format!("[={names}]") } else { format!(" {names}") })
}

fn bold(page: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<&str> = line.split('`').collect();
        // A single one is itself.
        if parts.len().is_multiple_of(2) {
            return line.to_owned();
        }
        let styled = parts.iter().enumerate().map(|(at, part)| match at % 2 {
            1 => format!("\\fB{part}\\fR"),
            _ => (*part).to_owned(),
        });
        styled.collect()
    };
    page.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") && !line.trim().is_empty()
}

fn status(line: &str) -> Option<(u8, &str)> {
    let (number, meaning) = line.trim_start().split_once("  ")?;
    Some((number.parse().ok()?, meaning.trim_start()))
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// The commands that read a variable (all if there are none), its name, and its effect.
const VARIABLES: [(&str, &str, &str); 11] = [
    ("", "NO_COLOR", "If set and not empty, output is not coloured, unless --color=always is given."),
    ("", "TERM", "If set to dumb, output is not coloured."),
    ("", "COLUMNS", "The line width if the output is not a terminal [default: 80]."),
    (
        "apply bench check lab map plan probe realign reproduce",
        "TMPDIR",
        "The directory for temporary files: unpacked images, and working directories of guests.",
    ),
    (
        "bench probe",
        "XDG_STATE_HOME",
        "The directory whose straddle/ subdirectory holds journals [default: ~/.local/state].",
    ),
    (
        "reproduce",
        "XDG_CACHE_HOME",
        "The directory whose straddle/inputs/ subdirectory holds generated inputs [default: ~/.cache].",
    ),
    (
        "lab reproduce",
        "LINUX_UML",
        "The User-Mode Linux binary to run as the guest kernel [default: linux.uml].",
    ),
    (
        "check map",
        "AWS_*, GOOGLE_*, AZURE_*",
        "Credentials for buckets, and server settings such as AWS_REGION and AWS_ENDPOINT.",
    ),
    (
        "check map",
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "The proxy for images on servers, and the hosts to reach without a proxy.",
    ),
    (
        "check map",
        "SSL_CERT_FILE, SSL_CERT_DIR",
        "The CA certificates for HTTPS [default: those of the system].",
    ),
    (
        "check",
        "VIRSH_DEFAULT_CONNECT_URI, LIBVIRT_DEFAULT_URI",
        "The libvirt connection to read domains from. A connection to another host is refused.",
    ),
];

/// The pages that a command's page refers to, besides the main page: commands, and those of other programs.
const RELATED: [(&str, &str); 20] = [
    ("", "lsblk(8) parted(8) sfdisk(8) fio(1)"),
    ("apply", "plan realign undo sfdisk(8)"),
    ("bench", "probe drive fio(1) hdparm(8)"),
    ("check", "explain map realign lsblk(8) parted(8) blkid(8)"),
    ("drive", "bench lab serve sim"),
    ("efficiency", "explain"),
    ("explain", "check fdisk(8) parted(8) gdisk(8)"),
    ("lab", "drive reproduce serve"),
    ("map", "check lsblk(8) parted(8)"),
    ("plan", "apply realign sfdisk(8) parted(8)"),
    ("probe", "bench check hdparm(8) nvme(1) sg_vpd(8)"),
    ("realign", "apply resume sfdisk(8) resize2fs(8) ntfsresize(8)"),
    ("report", "check"),
    ("reproduce", "drive lab"),
    ("resume", "apply realign undo"),
    ("schema", "check"),
    ("serve", "drive lab nbd-client(8) qemu(1)"),
    ("sim", "trace drive blkparse(1) fio(1)"),
    ("trace", "sim blktrace(8) blkparse(1) fio(1)"),
    ("undo", "apply plan"),
];

fn around(page: &str) -> String {
    let words = page.strip_prefix("straddle").unwrap_or(page).trim_start_matches('-');
    let command = words.split('-').next().unwrap_or_default();
    let mut roff = ".SH ENVIRONMENT\n".to_owned();
    for (of, name, effect) in VARIABLES {
        if of.is_empty() || of.split(' ').any(|of| of == command) {
            let _ = writeln!(roff, ".TP\n{}\n{}", escaped(name), escaped(effect));
        }
    }
    // A page of the parts of a command refers to the command.
    let parent = Some(command).filter(|_| words.len() > command.len());
    let main = Some("straddle(8)").filter(|_| !words.is_empty());
    let related = RELATED.iter().find(|(of, _)| *of == command).map_or("", |(_, pages)| *pages);
    let pages = main.into_iter().chain(parent).chain(related.split_whitespace());
    let named = pages.map(|page| match page.strip_suffix(')').and_then(|page| page.split_once('(')) {
        Some((name, section)) => format!(".BR {} ({section})", escaped(name)),
        None => format!(".BR straddle\\-{} (8)", escaped(page)),
    });
    roff + ".SH \"SEE ALSO\"\n" + &named.collect::<Vec<_>>().join(" ,\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's options are defined later than what the list says of it, and change nothing of that.
    #[test]
    fn the_help_of_a_command_begins_as_the_list_does() {
        let listed = Arguments::described();
        let mut built = Arguments::described();
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
        let mut built = Arguments::described();
        built.build();
        lines_fit(&built);
        let help = built.render_help().to_string();
        for command in built.get_subcommands() {
            let line = format!("\n  {:<11}  {}\n", command.get_name(), command.get_about().unwrap());
            assert!(line.chars().count() <= 82 && help.matches(&line).count() == 1, "{line}{help}");
        }
    }

    #[test]
    fn headings_examples_and_statuses_become_sections() {
        let help = "Examples:\n  a --b 'c'   \\\n  d\n\nText that\nis filled.\n\nExit status:\n  0  fine\n130  interrupted\n\nMore: or less.";
        let expected = ".SH \"EXAMPLES\"\n.RS 2\n.nf\na \\-\\-b \\(aqc\\(aq   \\e\nd\n.fi\n.RE\n.PP\nText that\nis filled.\n.PP\n\
                        .SH \"EXIT STATUS\"\n.TP\n0\nfine\n.TP\n130\ninterrupted\n.PP\nMore: or less.\n";
        assert_eq!(sections(help), expected);
        assert_eq!(sections("Exit status: that of\nit"), ".SH \"EXIT STATUS\"\nThat of\nit\n");
        assert_eq!(sections("Of a text\n"), ".SH \"NOTES\"\nOf a text\n");
        assert_eq!(sections(""), "");
        assert_eq!(sections("A list\nof:\n  one\n").matches(".SH").count(), 1);
    }

    #[test]
    fn a_page_names_its_variables_and_related_pages() {
        let page = around("straddle-drive-show");
        assert!(page.contains(".TP\nNO_COLOR\n") && !page.contains("XDG_STATE_HOME"), "{page}");
        assert!(page.contains("SEE ALSO\"\n.BR straddle (8) ,\n.BR straddle\\-drive (8) ,\n"), "{page}");
        assert!(
            around("straddle-bench").contains("XDG_STATE_HOME")
                && !around("straddle").contains("straddle (8)")
        );
    }
}
