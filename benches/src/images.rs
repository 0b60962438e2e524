//! The images used for measuring: real tables by sfdisk, and sparse copies of them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The size of an image.
const LEN: usize = 64 << 20;

/// A file system's smallest unit of storage: copies leave out blocks of zeros.
const BLOCK: usize = 4096;

/// A directory that is removed when dropped.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Result<Self> {
        Self::within(&std::env::temp_dir(), "images")
    }

    /// A directory in `parent` whose name contains `what`.
    pub(crate) fn within(parent: &Path, what: &str) -> Result<Self> {
        let path = parent.join(format!("straddle-benches-{what}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An image with table number `index`: GPT or MBR, some with logical partitions, some aligned and some
    /// misaligned.
    pub(crate) fn one_table(&self, index: usize) -> Result<PathBuf> {
        let path = self.0.join(format!("table-{index}.img"));
        File::create(&path)?.set_len(u64::try_from(LEN)?)?;
        partition(&path, &script(index))?;
        Ok(path)
    }

    /// An image of depth 5: a partition, a RAID member (metadata at the end), a physical volume, its volumes,
    /// and their contents. mdadm and LVM make the RAID and the volumes in the tests' guest.
    pub(crate) fn deep(&self) -> Result<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let made = self.0.join("guest");
        fs::create_dir(&made)?;
        let status = Command::new(root.join("tests/guest/run"))
            .args(["-t", "120", "-o"])
            .args([&made, &root.join("tests/guest/stacks-md-lvm.sh")])
            .arg("nested")
            .status()
            .context("cannot run the guest")?;
        if !status.success() {
            bail!("the guest could not make the layers");
        }
        let member = File::open(made.join("deep/0.img"))?;
        let path = self.0.join("deep.img");
        let start = 1 << 20;
        let file = File::create(&path)?;
        file.set_len(member.metadata()?.len() + 2 * start)?;
        let script = format!("label: gpt\nstart=2048, size={}\n", member.metadata()?.len() / 512);
        partition(&path, &script)?;
        let file = File::options().write(true).open(&path)?;
        for (at, block) in blocks(&member)? {
            file.write_all_at(&block, start + at)?;
        }
        Ok(path)
    }

    /// Makes `count` small qcow2 images, all copies of the first.
    pub(crate) fn qcow2(&self, count: usize) -> Result<Vec<String>> {
        let raw = self.one_table(0)?;
        let first = self.0.join("0.qcow2");
        let status = Command::new("qemu-img").args(["convert", "-O", "qcow2"]).args([&raw, &first]).status();
        if !status.context("cannot run qemu-img")?.success() {
            bail!("qemu-img refused the image");
        }
        let names: Vec<String> = (0..count).map(|index| format!("{index}.qcow2")).collect();
        for name in &names[1..] {
            fs::copy(&first, self.0.join(name))?;
        }
        Ok(names)
    }

    /// Makes `count` images with `distinct` different tables; returns their names in the directory.
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

/// Writes a table with sfdisk.
fn partition(image: &Path, script: &str) -> Result<()> {
    let mut child = Command::new("/usr/sbin/sfdisk")
        .args(["--quiet", "--no-reread", "--no-tell-kernel"])
        .arg(image)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run sfdisk, which makes the tables")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    if !child.wait()?.success() {
        bail!("sfdisk refused this table:\n{script}");
    }
    Ok(())
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The blocks that are not all zeros, with their offsets. They are read one by one, because the peak of this
/// process is also where the measured peak of its child processes starts.
fn blocks(file: &File) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut block = vec![0; BLOCK];
    for at in (0..file.metadata()?.len()).step_by(BLOCK) {
        file.read_exact_at(&mut block, at)?;
        if block.iter().any(|byte| *byte != 0) {
            found.push((at, block.clone()));
        }
    }
    Ok(found)
}

/// The script for sfdisk for table number `index`.
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
