//! Compiles the clock, which is preloaded into User-Mode Linux, to a shared library that the binary contains.

use std::path::PathBuf;
use std::process::ExitCode;

/// The constructor of the first source runs first.
const SOURCES: [&str; 6] = [
    "clock/clock.c",
    "clock/events.c",
    "clock/files.c",
    "clock/interrupts.c",
    "clock/open.c",
    "clock/registers.c",
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=clock");
    let library = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("clock.so");
    let compiler = cc::Build::new().std("gnu11").opt_level(2).pic(true).cargo_metadata(false).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-shared", "-Wall", "-Wextra", "-o"]).arg(&library).args(SOURCES).arg("-ldl");
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("compiling the clock: {command:?} ended with {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!(
                "compiling the clock needs a C compiler (apt-get install build-essential): {command:?}: {error}"
            );
            ExitCode::FAILURE
        }
    }
}
