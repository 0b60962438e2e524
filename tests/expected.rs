//! What users of lsblk, parted, fio, hyperfine, smartctl and ripgrep expect of a command-line tool:
//! docs/expectations.md lists it, and names the test of each row. Here are those that no other program has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tools::{Dir, STRADDLE, output, present, straddle, text, transcript};

/// An image with an MBR whose only partition starts at sector 63.
fn misaligned(dir: &Dir, name: &str) -> PathBuf {
    let path = dir.image(name, 32 << 20);
    let mut mbr = vec![0; 512];
    mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 0x80, 0, 0]);
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &mbr))
        .unwrap();
    path
}

fn said(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs `line` in a shell on a terminal, where `$S` is the program; returns what the terminal shows.
fn on_terminal(dir: &Dir, line: &str) -> String {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env("S", STRADDLE).env("TERM", "xterm").env_remove("NO_COLOR");
    text(&said(command.current_dir(dir.path())).stdout)
}

/// The names of the commands, and of commands of commands.
fn commands() -> Vec<Vec<String>> {
    let names = |words: &[String]| -> Vec<String> {
        let run = straddle(&[words, &["--help".to_owned()]].concat());
        // Above the options, only commands are lower-case.
        let lines = run.out.split("\nOptions:\n").next().unwrap_or_default().lines();
        lines
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned))
            .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
            .filter(|name| name != "help")
            .collect()
    };
    let mut all: Vec<Vec<String>> = Vec::new();
    for name in names(&[]) {
        let inner = names(std::slice::from_ref(&name));
        all.push(vec![name.clone()]);
        all.extend(inner.into_iter().map(|inner| vec![name.clone(), inner]));
    }
    assert!(all.len() > 18, "{all:?}");
    all
}

#[test]
fn colour_is_for_terminals_without_no_color() {
    if !present(&["script"]) {
        return;
    }
    let dir = Dir::new("colour");
    misaligned(&dir, "disk.img");
    for (line, is_coloured) in [
        ("$S check disk.img", true),
        ("NO_COLOR= $S check disk.img", true),
        ("NO_COLOR=1 $S check disk.img", false),
        ("TERM=dumb $S check disk.img", false),
        ("$S check disk.img | cat", false),
        ("NO_COLOR=1 $S --color always check disk.img | cat", true),
    ] {
        let shown = on_terminal(&dir, line);
        assert!(shown.contains("S001"), "{line}: {shown}");
        assert_eq!(shown.contains("\u{1b}["), is_coloured, "{line}: {shown:?}");
    }
}

#[test]
fn progress_is_on_stderr_and_only_on_a_terminal() {
    if !present(&["script"]) {
        return;
    }
    let dir = Dir::new("progress");
    // A bar appears after a second.
    let bench = "bench random-write ./scratch --area 16M --io buffered --offsets 0,1 --precision 0.1 --runtime 4 \
                 --journals journals";
    let shown = on_terminal(&dir, &format!("$S {bench} > out.txt"));
    assert!(shown.contains('%'), "no bar on the terminal: {shown:?}");
    let printed = fs::read_to_string(dir.join("out.txt")).unwrap();
    assert!(printed.contains("OFFSET") && !printed.contains(['\r', '\u{1b}']), "{printed:?}");
    let run = said(Command::new(STRADDLE).args(bench.split_whitespace()).current_dir(dir.path()));
    assert!(run.status.success() && run.stderr.is_empty(), "{}", transcript(&run));
}

#[test]
fn locales_change_nothing() {
    let dir = Dir::new("locale");
    misaligned(&dir, "disk.img");
    for arguments in [&["check", "disk.img"][..], &["explain", "S001"], &["check", "--json", "disk.img"]] {
        let mut all =
            ["C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8", "no_SUCH.locale", "\u{fffd}", ""].map(
                |locale| {
                    let mut command = Command::new(STRADDLE);
                    command.args(arguments).current_dir(dir.path()).env("LC_ALL", locale).env("LANG", locale);
                    let run = said(&mut command);
                    assert!(run.stderr.is_empty(), "{locale}: {}", transcript(&run));
                    run.stdout
                },
            );
        all.sort();
        assert_eq!(all.first(), all.last(), "{arguments:?}");
    }
}

#[test]
fn commands_that_read_change_nothing() {
    let dir = Dir::new("reads");
    let image = misaligned(&dir, "disk.img");
    fs::set_permissions(&image, Permissions::from_mode(0o444)).unwrap();
    let state = || {
        let data = fs::metadata(&image).unwrap();
        (
            fs::read(&image).unwrap(),
            data.mtime(),
            data.mtime_nsec(),
            data.ctime(),
            data.ctime_nsec(),
            data.blocks(),
        )
    };
    let before = state();
    for arguments in [
        "check disk.img",
        "check --verbose disk.img",
        "map disk.img",
        "plan disk.img --table gpt --part rest --explain",
        "plan disk.img --add 4MiB",
        "realign disk.img",
        "bench random-read disk.img --used --io buffered --runtime 1 --count 8 --offsets 0,1",
    ] {
        let run = said(Command::new(STRADDLE).args(arguments.split(' ')).current_dir(dir.path()));
        assert!(matches!(run.status.code(), Some(0 | 1)), "{arguments}: {}", transcript(&run));
        assert!(state() == before, "{arguments} has changed the image");
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["disk.img"], "a file was left behind");
}

#[test]
fn images_need_no_root() {
    let dir = Dir::new("nobody");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let program = dir.join("straddle");
    crate::tools::copy_program(STRADDLE, &program);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let user = tools::ordinary_user(&program);
    if user == ["env"] && fs::metadata("/proc/self").unwrap().uid() == 0 {
        return tools::not_run("no ordinary user can reach the program");
    }
    let nobody = |line: &str| {
        let mut command = Command::new(user[0]);
        command.args(&user[1..]).args(["sh", "-c", &line.replace("straddle ", "./straddle ")]);
        output(command.current_dir(dir.path()).env("XDG_STATE_HOME", dir.join("state")), "")
    };
    for (line, status) in [
        ("truncate -s 64M disk.img", 0),
        ("straddle plan disk.img --table gpt --part 20MiB,start=63s --allow-misaligned --save wrong.json", 0),
        ("straddle apply wrong.json --write disk.img", 0),
        ("straddle check disk.img", 1),
        ("straddle realign disk.img --save move.json", 0),
        ("straddle apply move.json --write disk.img", 0),
        ("straddle check --only S001 disk.img", 0),
        ("straddle bench random-write disk.img --used --io buffered --runtime 1 --offsets 0,1 --area 1M", 0),
    ] {
        let run = nobody(line);
        assert_eq!(run.status.code(), Some(status), "{line}: {}", transcript(&run));
    }
}

#[test]
fn help_has_examples_and_is_short_on_request() {
    for command in commands() {
        let (long, short) = (
            straddle(&[&command[..], &["--help".to_owned()]].concat()),
            straddle(&[&command[..], &["-h".to_owned()]].concat()),
        );
        assert_eq!((long.code, short.code, long.err.as_str()), (0, 0, ""), "{command:?}");
        assert!(short.out.lines().count() <= long.out.lines().count(), "{command:?}");
        assert!(long.out.contains("Examples:\n  "), "{command:?} has no examples");
    }
    let version = straddle(&["--version"]);
    assert_eq!(
        (version.code, version.out.as_str()),
        (0, concat!("straddle ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}

/// The sections of every man page.
const SECTIONS: [&str; 8] =
    ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"];
/// The sections of some.
const MORE_SECTIONS: [&str; 4] =
    ["SUBCOMMANDS", "VERSION", "REAL DISKS AND FILES", "AVAILABLE TO SCRIPTS IN THE GUEST"];

#[test]
fn man_pages_are_rendered_without_a_warning() {
    if !present(&["groff"]) {
        return;
    }
    for command in commands() {
        let page = straddle(&["man".to_owned(), command.join("-")]);
        assert_eq!(page.code, 0, "{command:?}: {}", page.err);
        let mut groff = Command::new("groff");
        let run = output(groff.args(["-man", "-Tutf8", "-ww", "-P-cbou"]), &page.out);
        assert!(run.status.success() && run.stderr.is_empty(), "{command:?}: {}", text(&run.stderr));
        let shown = text(&run.stdout);
        let is_heading = |line: &&str| line.chars().next().is_some_and(|first| !first.is_whitespace());
        // The header and the footer of the page name it.
        let mut headings: Vec<&str> = shown.lines().filter(is_heading).collect();
        headings.retain(|line| !line.ends_with("(8)"));
        for section in SECTIONS {
            assert!(headings.contains(&section), "{command:?} lacks {section}: {shown}");
        }
        headings.retain(|heading| !SECTIONS.contains(heading) && !MORE_SECTIONS.contains(heading));
        assert!(headings.is_empty(), "{command:?} has {headings:?}");
    }
}

#[test]
fn a_misspelt_word_is_corrected() {
    for (words, meant) in [
        (&["chek"][..], "check"),
        (&["check", "--jsn", "x"], "--json"),
        (&["check", "--output-format", "sarfi", "x"], "sarif"),
        (&["check", "--asume", "4kn", "x"], "--assume"),
        (&["drive", "shwo", "x"], "show"),
    ] {
        let run = straddle(words);
        assert!(
            run.code == 2 && run.out.is_empty() && run.err.contains(&format!("'{meant}'")),
            "{words:?}: {}",
            run.err
        );
    }
}

#[test]
fn completions_complete_in_a_shell() {
    if !present(&["bash"]) {
        return;
    }
    let complete = |words: &str| {
        let line = format!(
            "source <('{STRADDLE}' completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _straddle straddle \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let run = output(Command::new("bash").args(["--norc", "-c", &line]), "");
        assert!(run.status.success() && run.stderr.is_empty(), "{words}: {}", transcript(&run));
        text(&run.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("straddle ch"), ["check"]);
    assert_eq!(complete("straddle check --js"), ["--json"]);
    assert_eq!(complete("straddle check --output-format sa"), ["sarif"]);
    assert_eq!(complete("straddle check --only S00")[..2], ["S001", "S002"]);
    assert_eq!(complete("straddle explain gd"), ["gdisk"]);
    assert_eq!(complete("straddle reproduce mil"), ["miller-2010"]);
    assert!(complete("straddle drive show wd10").contains(&"wd10ears".to_owned()));
    assert_eq!(complete("straddle plan disk.img --assume 512"), ["512n", "512e"]);
    for shell in ["elvish", "powershell"] {
        assert!(straddle(&["completions", shell]).out.contains("straddle"), "{shell}");
    }
}

/// Prints the line that Tab makes of $2 in zsh, with the completions in the directory $1.
const IN_ZSH: &str = r#"zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= fpath=(${(q)1} \$fpath); autoload -U compinit && compinit -u -D; show() { print -r -- \"<\$BUFFER>\" }
    zle -N show; bindkey '^X' show; print ready"
zpty -r -m shell out '*ready*'
zpty -w -n shell "$2"$'\t\x18'
zpty -r -m shell out '*<*>*'
print -r -- ${${out##*<}%%>*}"#;

#[test]
fn operands_files_and_topologies_are_completed_in_fish_and_zsh() {
    let dir = Dir::new("completions");
    dir.image("disk.img", 4096);
    for (shell, name) in [("fish", "straddle.fish"), ("zsh", "_straddle")] {
        fs::write(dir.join(name), straddle(&["completions", shell]).out).unwrap();
        if !present(&[shell]) {
            continue;
        }
        let complete = |line: &str| {
            let mut command = Command::new(shell);
            match shell {
                "fish" => command
                    .args(["--no-config", "-c"])
                    .arg(format!("source straddle.fish; complete -C '{line}'")),
                _ => command.args(["-f", "-c", IN_ZSH, "zsh"]).arg(dir.path()).arg(line),
            };
            let run = output(command.current_dir(dir.path()), "");
            assert!(run.status.success() && run.stderr.is_empty(), "{shell} {line}: {}", transcript(&run));
            text(&run.stdout)
        };
        for (line, wanted) in [
            ("straddle explain gdi", "gdisk"),
            ("straddle check --assume 512n", "512n"),
            ("straddle check --assume wd10ea", "wd10ears"),
            ("straddle check dis", "disk.img"),
            ("straddle drive show wd10ea", "wd10ears"),
            ("straddle bench random-write wd10ea", "wd10ears"),
            ("straddle bench random-write dis", "disk.img"),
            ("straddle reproduce mil", "miller-2010"),
        ] {
            let completed = complete(line);
            assert!(completed.contains(wanted), "{shell} {line}: {completed}");
        }
    }
}

#[test]
fn sizes_have_suffixes_and_decimal_ones_are_refused() {
    let at = |offset: &str| straddle(&["explain", "rmw", "--offset", offset, "--json"]);
    for same in ["2048", "2048B", "2K", "2k", "2KiB", "2 KiB"] {
        assert_eq!(at(same).json()["offset_bytes"], 2048, "{same}");
    }
    for wrong in ["2kB", "2MB", "2.5K", "-1", "", "K", "99999999T"] {
        let run = at(wrong);
        assert!(run.code == 2 && !run.err.is_empty(), "{wrong}: {}", run.out);
    }
}

#[test]
fn a_dash_is_standard_input() {
    let dir = Dir::new("dash");
    fs::write(dir.join("trace.csv"), "time_us,op,offset,length\n0,W,4096,4096\n900000,W,40960,4096\n")
        .unwrap();
    let run = |name: &str, input: &str| {
        let run = output(
            Command::new(STRADDLE)
                .args(["sim", name, "--drive", "wd10ears", "--json"])
                .current_dir(dir.path()),
            input,
        );
        assert!(run.status.success(), "{}", transcript(&run));
        text(&run.stdout)
    };
    let (named, piped) =
        (run("trace.csv", ""), run("-", &fs::read_to_string(dir.join("trace.csv")).unwrap()));
    assert_eq!(named.replace("trace.csv", "-"), piped, "{named}");
    let twice = output(Command::new(STRADDLE).args(["sim", "-", "--drive", "wd10ears", "--compare"]), "");
    assert!(
        twice.status.code() == Some(2) && text(&twice.stderr).contains("only once"),
        "{}",
        transcript(&twice)
    );
}

#[test]
fn a_link_to_a_disk_is_followed_and_keeps_its_name() {
    let dir = Dir::new("link");
    misaligned(&dir, "disk.img");
    symlink("disk.img", dir.join("by-id")).unwrap();
    let line = |name: &str| {
        text(&said(Command::new(STRADDLE).args(["check", "-q", name]).current_dir(dir.path())).stdout)
    };
    assert!(line("by-id").starts_with("by-id: error S001"), "{}", line("by-id"));
    assert_eq!(line("by-id").replace("by-id: ", "disk.img: "), line("disk.img"));
    if !present(&["linux.uml"]) {
        return;
    }
    let script = format!(
        "mkdir -p /dev/disk/by-id && ln -s ../../vda /dev/disk/by-id/ata-WD && \
         '{STRADDLE}' check --json /dev/disk/by-id/ata-WD"
    );
    let run = straddle(&["lab", "--drive", "wd10ears", "--", "sh", "-c", &script]);
    let report: serde_json::Value =
        serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
    let target = &report["targets"][0];
    assert_eq!(target["target"], "/dev/disk/by-id/ata-WD");
    assert_eq!(target["device"]["size_bytes"], 1_000_204_886_016_u64, "{target}");
}
