//! The shipped profiles, sorted by name.

macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        pub(super) const PROFILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*];
    };
}

profiles![
    "3tb-512e-2012",
    "640gb-512n",
    "dell-6tb-7200-512e",
    "dt01aca300",
    "nearline-20tb-512e",
    "nearline-4kn-7200",
    "nvme-tlc-4k",
    "qlc-16k",
    "qlc-64k",
    "sd-card-2011",
    "sd-card-2015",
    "smr-8tb",
    "ssd-sata-4k",
    "st2000dl003",
    "wd-green-2010",
    "wd-mybook-1500",
    "wd10ears",
    "wd20ears",
    "wd20ears-lulf",
];
