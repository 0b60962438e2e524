//! The text after the options of a command's help, as sections of its man page.

use std::fmt::Write;

use clap::{Arg, Command};

/// Returns the sections of a man page for `help`, in roff.
///
/// A line that ends with a colon starts a section if an empty line is before it and indented ones follow; `Exit status:` may also be
/// followed by its text. Indented lines keep their breaks, all others are filled.
pub(super) fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut lines = help.lines().peekable();
    let (mut is_open, mut is_verbatim, mut is_first) = (false, false, true);
    while let Some(line) = lines.next() {
        let next_is_indented = lines.peek().is_some_and(|next| is_indented(next) || is_status(next));
        // The last line of a paragraph may end with a colon, too.
        let heading = line.strip_suffix(':').filter(|_| is_first && !is_indented(line) && next_is_indented);
        is_first = line.trim().is_empty();
        let (heading, rest) = match (heading, line.split_once(": ")) {
            (Some(heading), _) => (Some(heading), ""),
            (None, Some(("Exit status", rest))) => (Some("Exit status"), rest),
            _ => (None, line),
        };
        let verbatim = is_indented(line) && !is_status(line);
        if is_verbatim && !verbatim {
            roff += ".fi\n.RE\n";
        } else if verbatim && !is_verbatim {
            roff += ".RS 2\n.nf\n";
        }
        is_verbatim = verbatim;
        if heading.is_some() || !is_open {
            let _ = writeln!(roff, ".SH {}", quoted(&heading.unwrap_or("Notes").to_uppercase()));
            is_open = true;
        }
        if let Some((status, meaning)) = status(line) {
            let _ = writeln!(roff, ".TP\n{status}\n{}", escaped(meaning));
        } else if rest.trim().is_empty() {
            roff += if heading.is_none() && !is_verbatim { ".PP\n" } else { "" };
        } else {
            let rest = if verbatim { rest.strip_prefix("  ").unwrap_or(rest) } else { rest };
            let rest = if rest.len() < line.len() && heading.is_some() {
                capitalised(rest)
            } else {
                rest.to_owned()
            };
            let _ = writeln!(roff, "{}", escaped(&rest));
        }
    }
    if is_verbatim {
        roff += ".fi\n.RE\n";
    }
    roff
}

/// Returns a synopsis with the values of the options in it.
pub(super) fn with_values(synopsis: &str, command: &Command) -> String {
    let mut text = synopsis.to_owned();
    for option in command.get_arguments().filter(|option| !option.is_positional()) {
        let (Some(long), Some(values)) = (option.get_long(), values(option)) else { continue };
        let name = format!("\\fB{}\\fR", escaped(&format!("--{long}")));
        text = text.replace(&format!("<{name}>"), &name).replace(&name, &format!("{name}{values}"));
    }
    text
}

/// Returns the values of an option as they follow its name; `None` if it takes none.
fn values(option: &Arg) -> Option<String> {
    let range = option.get_num_args()?;
    let names = option.get_value_names().filter(|_| range.takes_values())?;
    let names: Vec<String> = names.iter().map(|name| format!("\\fI<{}>\\fR", escaped(name))).collect();
    Some(if range.min_values() == 0 {
        format!("[={}]", names.join(" "))
    } else {
        format!(" {}", names.join(" "))
    })
}

/// Returns a page in which what is between backquotes is bold.
pub(super) fn bold(page: &str) -> String {
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

/// Returns the text after a heading on the same line, as a sentence.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") && !line.trim().is_empty()
}

fn is_status(line: &str) -> bool {
    status(line).is_some()
}

/// Returns an exit status and its meaning, from a line such as `  0  success`.
fn status(line: &str) -> Option<(u8, &str)> {
    let (number, meaning) = line.trim_start().split_once("  ")?;
    Some((number.parse().ok()?, meaning.trim_start()))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text).replace('"', "\\(dq"))
}

/// Escapes what roff would interpret.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// The variables that the program reads: the commands that do, all if there are none, the names, and the effect.
const VARIABLES: [(&[&str], &str, &str); 11] = [
    (&[], "NO_COLOR", "If set and not empty, nothing is coloured, unless --color=always."),
    (&[], "TERM", "If it is dumb, nothing is coloured."),
    (&[], "COLUMNS", "The characters per line, where no terminal knows them [default: 80]."),
    (
        &["apply", "bench", "check", "lab", "map", "plan", "probe", "realign", "reproduce"],
        "TMPDIR",
        "The folder of temporary files: what compressed images contain, and the folders of guests.",
    ),
    (
        &["bench", "probe"],
        "XDG_STATE_HOME",
        "The folder of the folder straddle, which keeps journals [default: ~/.local/state].",
    ),
    (
        &["reproduce"],
        "XDG_CACHE_HOME",
        "The folder of the folder straddle/inputs, which keeps generated inputs [default: ~/.cache].",
    ),
    (&["lab", "reproduce"], "LINUX_UML", "User-Mode Linux, the kernel of guests [default: linux.uml]."),
    (
        &["check", "map"],
        "AWS_*, GOOGLE_*, AZURE_*",
        "The credentials for buckets, and the settings of their servers, such as AWS_REGION and AWS_ENDPOINT.",
    ),
    (
        &["check", "map"],
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "The proxy for servers with images, and the hosts that are asked without it.",
    ),
    (
        &["check", "map"],
        "SSL_CERT_FILE, SSL_CERT_DIR",
        "The certificates of authorities for HTTPS [default: those of the system].",
    ),
    (
        &["check"],
        "VIRSH_DEFAULT_CONNECT_URI, LIBVIRT_DEFAULT_URI",
        "The libvirt whose domains are read. That of another host is refused.",
    ),
];

/// The pages that a command's page refers to, besides the main page.
const RELATED: [(&str, &[&str]); 20] = [
    ("", &["lsblk(8)", "parted(8)", "sfdisk(8)", "fio(1)"]),
    ("apply", &["straddle-plan(1)", "straddle-realign(1)", "straddle-undo(1)", "sfdisk(8)"]),
    ("bench", &["straddle-probe(1)", "straddle-drive(1)", "fio(1)", "hdparm(8)"]),
    (
        "check",
        &[
            "straddle-explain(1)",
            "straddle-map(1)",
            "straddle-realign(1)",
            "lsblk(8)",
            "parted(8)",
            "blkid(8)",
        ],
    ),
    ("drive", &["straddle-bench(1)", "straddle-lab(1)", "straddle-serve(1)", "straddle-sim(1)"]),
    ("efficiency", &["straddle-explain(1)"]),
    ("explain", &["straddle-check(1)", "fdisk(8)", "parted(8)", "gdisk(8)"]),
    ("lab", &["straddle-drive(1)", "straddle-reproduce(1)", "straddle-serve(1)"]),
    ("map", &["straddle-check(1)", "lsblk(8)", "parted(8)"]),
    ("plan", &["straddle-apply(1)", "straddle-realign(1)", "sfdisk(8)", "parted(8)"]),
    ("probe", &["straddle-bench(1)", "straddle-check(1)", "hdparm(8)", "nvme(1)", "sg_vpd(8)"]),
    ("realign", &["straddle-apply(1)", "straddle-resume(1)", "sfdisk(8)", "resize2fs(8)", "ntfsresize(8)"]),
    ("report", &["straddle-check(1)"]),
    ("reproduce", &["straddle-drive(1)", "straddle-lab(1)"]),
    ("resume", &["straddle-apply(1)", "straddle-realign(1)", "straddle-undo(1)"]),
    ("schema", &["straddle-check(1)"]),
    ("serve", &["straddle-drive(1)", "straddle-lab(1)", "nbd-client(8)", "qemu(1)"]),
    ("sim", &["straddle-trace(1)", "straddle-drive(1)", "blkparse(1)", "fio(1)"]),
    ("trace", &["straddle-sim(1)", "blktrace(8)", "blkparse(1)", "fio(1)"]),
    ("undo", &["straddle-apply(1)", "straddle-plan(1)"]),
];

/// Returns the sections about the environment and about other pages, of the page with this name.
pub(super) fn around(page: &str) -> String {
    let words = page.strip_prefix("straddle").unwrap_or(page).trim_start_matches('-');
    let command = words.split('-').next().unwrap_or_default();
    let mut roff = ".SH ENVIRONMENT\n".to_owned();
    for (_, name, effect) in VARIABLES.iter().filter(|(of, ..)| of.is_empty() || of.contains(&command)) {
        let _ = writeln!(roff, ".TP\n{}\n{}", escaped(name), escaped(effect));
    }
    // A page of the parts of a command refers to the command.
    let parent = Some(format!("straddle-{command}(1)")).filter(|_| words.len() > command.len());
    let main = Some("straddle(1)".to_owned()).filter(|_| !words.is_empty());
    let related = RELATED.iter().find(|(of, _)| *of == command).map_or(&[][..], |(_, pages)| *pages);
    let others = related.iter().map(|page| (*page).to_owned());
    let pages = main.into_iter().chain(parent).chain(others);
    let named = pages.filter_map(|page| {
        let (name, section) = page.strip_suffix(')')?.split_once('(')?;
        Some(format!(".BR {} ({section})", escaped(name)))
    });
    roff + ".SH \"SEE ALSO\"\n" + &named.collect::<Vec<_>>().join(" ,\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{around, sections};

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
        assert!(page.contains("SEE ALSO\"\n.BR straddle (1) ,\n.BR straddle\\-drive (1) ,\n"), "{page}");
        assert!(
            around("straddle-bench").contains("XDG_STATE_HOME")
                && !around("straddle").contains("straddle (1)")
        );
    }
}
