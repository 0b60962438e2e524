//! The date of the newest version, which the man pages have, as `STRADDLE_DATE`.

fn main() {
    let changes = "../../CHANGELOG.md";
    println!("cargo::rerun-if-changed={changes}");
    let changes = std::fs::read_to_string(changes).unwrap_or_default();
    let date = |line: &str| {
        line.strip_prefix("## ")?.strip_suffix(')')?.split_once(" (").map(|(_, date)| date.to_owned())
    };
    println!("cargo::rustc-env=STRADDLE_DATE={}", changes.lines().find_map(date).unwrap_or_default());
}
