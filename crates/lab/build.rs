//! Compiles what is preloaded into User-Mode Linux to shared libraries that the binary contains.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Each library, and its sources. The constructor of the first source runs first.
const LIBRARIES: [(&str, &[&str]); 2] = [
    (
        "clock.so",
        &[
            "clock/clock.c",
            "clock/events.c",
            "clock/files.c",
            "clock/interrupts.c",
            "clock/open.c",
            "clock/owners.c",
            "clock/registers.c",
            "clock/table.c",
        ],
    ),
    ("real_time.so", &["clock/open.c", "clock/owners.c", "clock/real_time.c", "clock/registers.c"]),
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=clock");
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if machine != "x86_64" {
        eprintln!(
            "straddle-lab runs User-Mode Linux, which is for x86-64 only, not for {machine}; build straddle without the feature lab"
        );
        return ExitCode::FAILURE;
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let compiler = cc::Build::new().std("gnu11").opt_level(2).pic(true).cargo_metadata(false).get_compiler();
    for (name, sources) in LIBRARIES {
        let mut command = Command::new(compiler.path());
        // They are libraries of the guest's kernel, even if the program itself is linked statically.
        command.args(compiler.args().iter().filter(|argument| *argument != "-static"));
        command.args(["-shared", "-Wall", "-Wextra", "-o"]).arg(folder.join(name)).args(sources).arg("-ldl");
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("compiling the clock: {command:?} ended with {status}");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!(
                    "compiling the clock needs a C compiler (apt-get install build-essential): {command:?}: {error}"
                );
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
