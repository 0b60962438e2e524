//! Words of commands, quoted for a POSIX shell.

use std::path::Path;

pub(crate) use straddle_device::shown::quote;

/// Of a target's name in that of a file: names have 255 at most.
const LONGEST: usize = 200;

/// A word for a file in the current folder with `what` about a target, named after it: `sda.plan.json` for
/// `/dev/sda`.
pub fn file_about(target: &str, what: &str) -> String {
    // What follows the path of an address may be a secret.
    let parts = if target.contains("://") { "?#" } else { "" };
    let target = target.split(|c| parts.contains(c)).next().unwrap_or_default();
    let name = Path::new(target).file_name().and_then(|name| name.to_str()).unwrap_or("disk");
    let shortened = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last();
    let name = if name.len() > LONGEST { &name[..shortened.unwrap_or_default()] } else { name };
    operand(&format!("{name}.{what}"))
}

pub(crate) fn operand(target: &str) -> String {
    straddle_device::shown::quote_path(Path::new(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_of_its_disk() {
        for (target, word) in [
            ("/dev/sda", "sda.plan.json"),
            ("/dev/mapper/vg-root", "vg-root.plan.json"),
            ("images/web1.img", "web1.img.plan.json"),
            ("my disk.img", "'my disk.img.plan.json'"),
            ("-x.img", "./-x.img.plan.json"),
            ("what?.img", "'what?.img.plan.json'"),
            ("https://host/a/web1.img?sig=secret#x", "web1.img.plan.json"),
            ("..", "disk.plan.json"),
            ("", "disk.plan.json"),
        ] {
            assert_eq!(file_about(target, "plan.json"), word, "{target}");
        }
        for long in ["x".repeat(255), "é".repeat(127), format!("x{}", "é".repeat(127))] {
            let word = file_about(&long, "plan.json");
            let word = word.trim_matches('\'');
            assert!((LONGEST - 3..=LONGEST + 10).contains(&word.len()), "{word}");
        }
    }
}
