//! Images on servers: `check` and `map` of http, https, s3, gs and az, against servers that do it right and servers
//! that do not.
//!
//! No time is asserted. A server that never ends its answer is left after the program's own time limit; a run that
//! hangs all the same is killed after [`FOR_EVER`] and fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "remote/buckets.rs"]
mod buckets;
#[path = "remote/formats.rs"]
mod formats;
#[path = "remote/hostile.rs"]
mod hostile;
#[path = "remote/proxy.rs"]
mod proxy;
#[path = "remote/refused.rs"]
mod refused;
#[path = "remote/server.rs"]
mod server;
use crate::tools;
#[path = "remote/web.rs"]
mod web;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use tools::{PATH, STRADDLE, list};

/// After this many seconds a run hangs, on any machine.
const FOR_EVER: &str = "1200";

/// What a run printed, and its exit status.
struct Ran {
    out: String,
    err: String,
    code: i32,
}

impl Ran {
    /// The targets of `check --json`.
    #[track_caller]
    fn targets(&self) -> Vec<Value> {
        let report: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err));
        list(&report, "targets").to_vec()
    }

    /// Everything printed.
    fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// straddle in `dir`, without what the environment says of proxies and accounts.
fn straddle(dir: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", FOR_EVER, STRADDLE]).current_dir(dir);
    let is_meant = |name: &str| {
        let name = name.to_ascii_uppercase();
        name.ends_with("_PROXY")
            || ["AWS_", "AZURE_", "GOOGLE_", "AZURITE_", "SSL_CERT_"]
                .iter()
                .any(|begin| name.starts_with(begin))
    };
    for (name, _) in std::env::vars().filter(|(name, _)| is_meant(name)) {
        command.env_remove(name);
    }
    command.env("PATH", PATH).env("HOME", dir);
    command
}

/// Runs straddle with `arguments`.
#[track_caller]
fn ran(command: &mut Command, arguments: &[&str]) -> Ran {
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    let code = output.status.code().unwrap_or_else(|| panic!("{:?}: {out}{err}", output.status));
    assert!(code != 137, "it hangs: {out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    Ran { out, err, code }
}
