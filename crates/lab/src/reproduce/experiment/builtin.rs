//! The shipped experiments and the scripts of their guests, sorted by name.

macro_rules! embedded {
    ($table:ident, $folder:literal, $ending:literal, [$($name:literal),* $(,)?]) => {
        pub(super) const $table: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../../", $folder, $name, $ending)))),*];
    };
}

embedded!(
    EXPERIMENTS,
    "experiments/",
    ".toml",
    [
        "afd-2019",
        "arrays",
        "desno-2010",
        "lulf-2010",
        "miller-2010",
        "pronk-2010",
        "smith-2010",
        "spectre256-2012",
    ]
);

pub(super) const HOSTS: &str = include_str!("../../../../../experiments/hosts/presets.toml");

embedded!(
    SCRIPTS,
    "experiments/scripts/",
    ".sh",
    ["afd", "arrays", "miller", "pronk", "random-writes", "smith", "spectre256"]
);
