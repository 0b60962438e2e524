//! The shipped experiments, sorted by name.

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        pub(super) const EXPERIMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*];
    };
}

experiments!["afd-2019", "desno-2010", "lulf-2010", "miller-2010", "spectre256-2012"];
