//! Links the programs with packed relocations (RELR), half a megabyte less of each. glibc reads them from 2.36 on, the one of
//! Debian 12; a linker that does not know the option ignores it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
