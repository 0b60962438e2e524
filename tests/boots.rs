//! Systems that boot from disks whose partitions are moved: a small Debian (tests/boots/image) with GRUB, on
//! emulated PCs with BIOS and UEFI (QEMU, without KVM).
//!
//! The images are made by mmdebstrap, which downloads packages, so the tests are not part of `make test`:
//! `make boots` runs them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tools;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tools::shell::{program, shell};
use tools::skip::{PATH, present, skipped};

const MIB: u64 = 1 << 20;
/// The firmware for UEFI.
const OVMF: &str = "/usr/share/OVMF/OVMF_CODE.fd";
/// Longer than any boot takes.
const LIMIT: &str = "600";
/// Compares all files that were made with the system.
const JUDGE: &str =
    "cd / && sha256sum -c --quiet tree.sums && echo TREE-IS-WHOLE\nstraddle check /dev/vda; true\n";

fn straddle(folder: &Path, words: &[&str]) -> String {
    let (status, text) = program(folder, words);
    assert_eq!(status, 0, "{words:?}: {text}");
    text
}

/// The file systems and GRUB's images, with the program in the root file system.
fn image() -> Option<PathBuf> {
    if !present(&[
        "qemu-system-x86_64",
        "mmdebstrap",
        "grub-mkimage",
        "sfdisk",
        "debugfs",
        "mcopy",
        "mkfs.vfat",
    ]) {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boots/image");
    let output = Command::new(script).output().unwrap();
    if !output.status.success() {
        skipped(String::from_utf8_lossy(&output.stderr).trim());
        return None;
    }
    Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()))
}

/// A disk in a folder of its own.
struct Disk {
    folder: tempfile::TempDir,
    has_uefi: bool,
}

impl Disk {
    /// Makes a disk of this table, as sfdisk reads it, and puts files at sectors of it. The root file system
    /// gets the program.
    fn new(image: &Path, mib: u64, table: &str, contents: &[(&str, u64)], has_uefi: bool) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap(), has_uefi };
        let path = disk.path("");
        shell(&path, &format!("cp --sparse=always {}/* .", image.display()));
        shell(&path, &format!("strip -o straddle {}", env!("CARGO_BIN_EXE_straddle")));
        fs::write(
            disk.path("commands"),
            "write straddle usr/bin/straddle\nsif usr/bin/straddle mode 0100755\n",
        )
        .unwrap();
        shell(&path, "debugfs -w -f commands root.ext4 >/dev/null 2>&1");
        shell(
            &path,
            &format!("truncate -s {mib}M disk.img; printf '{table}' | sfdisk -q --no-tell-kernel disk.img"),
        );
        for (file, at) in contents {
            shell(
                &path,
                &format!(
                    "dd if={file} of=disk.img bs=64K oflag=seek_bytes seek=$(({at} * 512)) conv=notrunc,sparse status=none"
                ),
            );
        }
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Installs GRUB for BIOS in the first sector and the gap behind it, as its images say.
    fn install_grub(&self, core: &str) {
        shell(
            &self.path(""),
            &format!(
                "dd if=/usr/lib/grub/i386-pc/boot.img of=disk.img bs=440 count=1 conv=notrunc status=none
                [ $(stat -c %s {core}) -le $((62 * 512)) ]
                dd if={core} of=disk.img bs=64K oflag=seek_bytes seek=$((1 * 512)) conv=notrunc status=none"
            ),
        );
    }

    /// Starts the machine; its first process runs the script.
    fn start(&self, script: &str) -> Machine {
        fs::write(self.path("script"), script).unwrap();
        shell(&self.path(""), "truncate -s %512 script");
        let mut qemu = Command::new("timeout");
        qemu.args([
            "-k",
            "1",
            LIMIT,
            "qemu-system-x86_64",
            "-M",
            "pc",
            "-accel",
            "tcg",
            "-cpu",
            "qemu64,-cx16",
        ]);
        qemu.args(["-m", "1G", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        qemu.args(["-serial", "stdio", "-drive", "if=none,id=disk,format=raw,cache=unsafe,file=disk.img"]);
        qemu.args(["-device", "virtio-blk-pci,drive=disk,bootindex=0,serial=STRADDLE0,logical_block_size=512,physical_block_size=4096"]);
        qemu.args(["-drive", "if=none,id=script,format=raw,readonly=on,file=script"]);
        qemu.args(["-device", "virtio-blk-pci,drive=script,serial=script"]);
        if self.has_uefi {
            qemu.args(["-bios", OVMF]);
        }
        let child = qemu.current_dir(self.path("")).env("PATH", PATH).stdin(Stdio::null());
        let child = child.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        Machine { child, console: String::new() }
    }

    /// Boots and runs the script; returns the console. The script must succeed.
    fn run(&self, script: &str) -> String {
        let console = self.start(script).read();
        assert!(console.contains("BOOTS-STATUS 0"), "{console}");
        console
    }

    /// Boots, and compares the files and the verdict on the disk.
    fn judge(&self) {
        let console = self.run(JUDGE);
        assert!(console.contains("TREE-IS-WHOLE"), "{console}");
    }
}

/// A running machine.
struct Machine {
    child: Child,
    console: String,
}

impl Machine {
    /// Reads the console to the end of the machine.
    fn read(self) -> String {
        self.read_until(|_| false)
    }

    /// Reads the console until it is as wanted, and then cuts the machine's power.
    fn read_until(mut self, is_enough: impl Fn(&str) -> bool) -> String {
        let mut output = self.child.stdout.take().unwrap();
        let mut bytes = [0; 4096];
        while let Ok(count) = output.read(&mut bytes)
            && count > 0
        {
            let part = String::from_utf8_lossy(&bytes[..count]);
            if std::env::var_os("CONSOLE").is_some() {
                let _ = std::io::stderr().write_all(part.as_bytes());
            }
            self.console.push_str(&part.replace('\0', ""));
            if is_enough(&self.console) {
                break;
            }
        }
        // `timeout` does not pass on the signal that kills it.
        let machine = shell(Path::new("/"), &format!("ps -o pid= --ppid {} || true", self.child.id()));
        if let Ok(machine) = machine.trim().parse::<u32>() {
            let _ = Command::new("kill").args(["-KILL", &machine.to_string()]).status();
        }
        self.child.wait().unwrap();
        self.console
    }
}

/// How far the last bar on a console is, in percent.
fn percent(console: &str) -> u64 {
    let text = console.rsplit_once(" %").map_or("", |(before, _)| before);
    text.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "boots a system; make boots runs it"]
fn a_system_that_was_moved_boots_by_bios() {
    let Some(image) = image() else { return };
    let size = fs::metadata(image.join("root.ext4")).unwrap().len() / 512;
    let table = format!("label: dos\\nstart=63,size={size},type=83,bootable\\n");
    let disk = Disk::new(&image, 480, &table, &[("root.ext4", 63)], false);
    disk.install_grub("core.img");
    let before = disk.start(JUDGE).read();
    assert!(before.contains("TREE-IS-WHOLE") && before.contains("S001"), "{before}");
    let folder = disk.path("");
    let plan = straddle(&folder, &["realign", "disk.img", "--save", "move.json"]);
    assert!(plan.contains("partition 1"), "{plan}");
    straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
    // What is left in the old place must not be what boots.
    let file = File::options().write(true).open(disk.path("disk.img")).unwrap();
    file.write_all_at(&vec![0; usize::try_from(MIB).unwrap() - 63 * 512], 63 * 512).unwrap();
    disk.judge();
}

#[test]
#[ignore = "boots a system; make boots runs it"]
fn a_system_that_was_moved_boots_by_uefi() {
    let Some(image) = image() else { return };
    if !Path::new(OVMF).exists() {
        skipped("ovmf is not installed");
        return;
    }
    let size = fs::metadata(image.join("root.ext4")).unwrap().len() / 512;
    let (esp, root) = (70_003, 63 + 70_003);
    let table = format!(
        "label: gpt\\nfirst-lba: 34\\nstart=63,size={esp},type=U\\nstart={root},size={size},type=L\\n"
    );
    let disk = Disk::new(&image, 480, &table, &[("root.ext4", root)], true);
    let folder = disk.path("");
    shell(
        &folder,
        &format!(
            "truncate -s $(({esp} * 512)) esp; mkfs.vfat -F 32 -s 1 -h 63 esp >/dev/null
            mmd -i esp ::EFI ::EFI/BOOT; mcopy -i esp grub.efi ::EFI/BOOT/BOOTX64.EFI
            dd if=esp of=disk.img bs=64K oflag=seek_bytes seek=$((63 * 512)) conv=notrunc status=none"
        ),
    );
    let before = disk.start(JUDGE).read();
    assert!(before.contains("TREE-IS-WHOLE") && before.contains("S001"), "{before}");
    let plan = straddle(&folder, &["realign", "disk.img", "--save", "move.json"]);
    assert!(plan.contains("partition 2"), "{plan}");
    straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
    disk.judge();
}

/// Installs the hook for the next start in a running system, whose /boot is a partition of its own.
const PREPARE: &str = "\
mount /dev/vda2 /boot && export TMPDIR=/tmp && straddle realign /dev/vda --at-boot || exit
umount /boot
";

#[test]
#[ignore = "boots a system; make boots runs it"]
fn a_root_from_sector_63_is_realigned_at_boot_with_the_power_cut_three_times() {
    let Some(image) = image() else { return };
    let size = fs::metadata(image.join("root.ext4")).unwrap().len() / 512;
    let boot = (size + 2 * 2048).next_multiple_of(2048);
    let swap = boot + 112 * 2048;
    let table = format!(
        "label: dos\\nstart=63,size={size},type=83\\nstart={boot},size=112MiB,type=83\\nstart={swap},size=1MiB,type=82\\n"
    );
    let disk =
        Disk::new(&image, boot / 2048 + 112 + 40, &table, &[("root.ext4", 63), ("boot.ext4", boot)], false);
    disk.install_grub("core2.img");
    let console = disk.run(PREPARE);
    assert!(console.contains("prepared; at the next boot"), "{console}");

    // What has changed since is not moved, and starts as before.
    let folder = disk.path("");
    shell(&folder, "cp --sparse=always disk.img prepared.img; sfdisk -q --disk-id disk.img 0x12345678");
    let console = disk.run(JUDGE);
    let shown = console.rsplit_once("TREE-IS-WHOLE").map_or("", |(_, shown)| shown);
    assert!(shown.contains("at the last boot: the partitions were not moved"), "{console}");
    assert!(shown.contains("S001"), "{console}");

    // Nor is anything under a hibernated system.
    shell(&folder, "cp --sparse=always prepared.img disk.img");
    let swap = swap * 512 + 4096 - 10;
    shell(&folder, &format!("printf S1SUSPEND | dd of=disk.img bs=1 seek={swap} conv=notrunc status=none"));
    let console = disk.run("straddle check /dev/vda; true");
    assert!(console.contains("/dev/vda3 holds a hibernated system"), "{console}");
    assert!(console.contains("S001"), "{console}");

    shell(&folder, "mv prepared.img disk.img");
    for cut in [20, 45, 70] {
        let console = disk.start(JUDGE).read_until(|console| percent(console) >= cut);
        assert!(!console.contains("BOOTS-STATUS"), "{console}");
        let table = shell(&folder, "sfdisk -d disk.img");
        assert!(!table.contains("disk.img1") || table.contains("type=7f"), "{table}");
    }
    let console = disk.run(&format!(
        "{JUDGE}mount /dev/vda2 /boot; TMPDIR=/tmp straddle realign /dev/vda --at-boot=cancel"
    ));
    let shown = console.rsplit_once("TREE-IS-WHOLE").map_or("", |(_, shown)| shown);
    assert!(shown.contains("at the last boot: the move was interrupted and is now complete"), "{console}");
    assert!(!shown.contains("S001"), "{console}");
    let table = shell(&folder, "sfdisk -d disk.img");
    assert!(table.contains("start=        2048"), "{table}");
    let console = disk.run(
        "straddle check /dev/vda; ls /var/lib/straddle/at-boot \
                            /etc/initramfs-tools/hooks/straddle && exit 1; true",
    );
    assert!(!console.contains("at the last boot"), "{console}");
}

#[test]
#[ignore = "boots a system; make boots runs it"]
fn a_boot_partition_that_moves_is_not_moved_at_boot() {
    let Some(image) = image() else { return };
    let size = fs::metadata(image.join("root.ext4")).unwrap().len() / 512;
    let table = format!("label: dos\\nstart=63,size={size},type=83\\n");
    let disk = Disk::new(&image, 480, &table, &[("root.ext4", 63)], false);
    disk.install_grub("core.img");
    let console = disk.run(
        "straddle realign /dev/vda --at-boot; [ $? -eq 4 ] && ! [ -e /var/lib/straddle ] && ! [ -e /etc/initramfs-tools/hooks/straddle ]",
    );
    assert!(console.contains("/boot is in partition 1, which the boot loader cannot read"), "{console}");
}
