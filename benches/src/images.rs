//! The images that are measured: real tables by sfdisk, and sparse copies of them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The size of an image.
const LEN: usize = 64 << 20;

/// What a file system stores at least: blocks of zeros are left out of copies.
const BLOCK: usize = 4096;

/// A directory that goes when the run ends.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("straddle-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An image with table number `index`: GPT or MBR, some with logical partitions, some aligned and some not.
    pub(crate) fn one_table(&self, index: usize) -> Result<PathBuf> {
        let path = self.0.join(format!("table-{index}.img"));
        File::create(&path)?.set_len(u64::try_from(LEN)?)?;
        let mut child = Command::new("/usr/sbin/sfdisk")
            .args(["--quiet", "--no-reread", "--no-tell-kernel"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot run sfdisk, which makes the tables")?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(script(index).as_bytes())?;
        }
        if !child.wait()?.success() {
            bail!("sfdisk refused table {index}:\n{}", script(index));
        }
        Ok(path)
    }

    /// The names of `count` images in the directory with `distinct` different tables.
    pub(crate) fn many(&self, count: usize, distinct: usize) -> Result<Vec<String>> {
        let mut originals = Vec::new();
        for index in 0..distinct {
            let path = self.one_table(index)?;
            originals.push(blocks(&File::open(&path)?)?);
            fs::remove_file(path)?;
        }
        let mut names = Vec::new();
        for index in 0..count {
            let name = format!("{index}.img");
            let file = File::create(self.0.join(&name))?;
            file.set_len(u64::try_from(LEN)?)?;
            for (at, block) in &originals[index % distinct] {
                file.write_all_at(block, *at)?;
            }
            names.push(name);
        }
        Ok(names)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The blocks that are not all zeros, with their places. Read one by one: what this process holds at its peak, the
/// processes that it starts begin with.
fn blocks(file: &File) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut block = vec![0; BLOCK];
    for at in (0..u64::try_from(LEN)?).step_by(BLOCK) {
        file.read_exact_at(&mut block, at)?;
        if block.iter().any(|byte| *byte != 0) {
            found.push((at, block.clone()));
        }
    }
    Ok(found)
}

/// sfdisk's script for table number `index`.
fn script(index: usize) -> String {
    let shift = index % 8;
    let (first, second) = (63 + index % 40, 8192 + shift);
    match index % 3 {
        0 => format!(
            "label: gpt\nfirst-lba: 34\nstart={first}, size=1000, name=boot\nstart={second}, size=8192, name=root\n\
             start=32768, size=40000, name=\"data {index}\"\n"
        ),
        1 => format!("label: dos\nstart={first}, size=1000, bootable\nstart={second}, size=8192, type=82\n"),
        _ => format!(
            "label: dos\n1 : start={first}, size=1000\n2 : start=4096, size=100000, type=5\n5 : start={}, size=8000\n\
             6 : start=40960, size=8192\n",
            8192 + 63 + shift
        ),
    }
}
