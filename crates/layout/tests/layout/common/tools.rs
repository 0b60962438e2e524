//! Runs real tools on sparse images.
//!
//! A missing tool skips its test with a message; under CI, where it must be installed, that is a failure.

#[path = "../../../../../tests/tools/skip.rs"]
mod skip;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use straddle_device::FileMedium;
use straddle_layout::{Stack, read_stack};
use straddle_units::{BlockSize, ByteCount};

pub(crate) use skip::skipped;

/// The number of random cases that are tried of `all`: a fifth, if a test tries a sample.
pub(crate) fn random_cases(all: u32) -> u32 {
    if skip::is_sampled() { all / 5 } else { all }
}

/// A sparse image that is removed when the test ends.
pub(crate) struct Image(pub(crate) PathBuf);

impl Image {
    pub(crate) fn new(name: &str, len: u64) -> Self {
        let path = std::env::temp_dir().join(format!("straddle-layout-{}-{name}.img", std::process::id()));
        File::create(&path).and_then(|file| file.set_len(len)).expect("a temporary file can be made");
        Self(path)
    }

    pub(crate) fn medium(&self) -> FileMedium {
        let file = File::open(&self.0).expect("the image is there");
        let len = ByteCount::new(file.metadata().expect("the image is there").len());
        FileMedium::new(file, len)
    }

    pub(crate) fn stack(&self, device: Option<BlockSize>) -> Stack {
        read_stack(&self.medium(), device, None).expect("the image can be read")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a tool with `input` on an image, which replaces the argument "IMAGE" or else is the last argument.
/// Returns its output, or `None` if the tool is not installed.
pub(crate) fn run(tool: &str, args: &[&str], image: &Path, input: &str) -> Option<String> {
    let image = image.as_os_str();
    let mut all: Vec<&OsStr> =
        args.iter().map(|arg| if *arg == "IMAGE" { image } else { OsStr::new(*arg) }).collect();
    if !args.contains(&"IMAGE") {
        all.push(image);
    }
    // mkfs and similar tools are in directories that not every user has in the path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let child = Command::new(tool)
        .args(all)
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skipped(&format!("{tool} is not installed"));
        return None;
    };
    let written = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the tool ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{tool} {args:?}: {}{}", text(&output.stderr), text(&output.stdout));
    drop(written);
    Some(text(&output.stdout))
}
