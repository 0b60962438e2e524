//! Images that need other files. Those stay closed unless the user named them, and no chain is endless.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tests::common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use common::{
    DISK, assert_holds, chain, disk, image_with, noise, open_with, present, put, qemu_img, read, sign_vhd,
};
use rustix::fs::inotify;
use straddle_device::Options;
use straddle_device::image::Image;
use tempfile::TempDir;

/// Creates a folder with `base.raw`, the disk.
fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("base.raw"), disk()).unwrap();
    dir
}

/// Detects whether any process opened a file.
struct Watch(rustix::fd::OwnedFd);

impl Watch {
    fn new(path: &Path) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        inotify::add_watch(&watch, path, events).unwrap();
        Self(watch)
    }

    fn was_opened(&self) -> bool {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        inotify::Reader::new(&self.0, &mut buffer).next().is_ok()
    }
}

/// Performs everything that a caller may do with an image, and returns the errors.
fn use_image(path: &Path, allowed: &[PathBuf]) -> Vec<String> {
    let mut messages = Vec::new();
    match open_with(path, allowed) {
        Err(error) => messages.push(chain(&error)),
        Ok(straddle_device::image::Opened::Raw(_)) => messages.push("raw".to_owned()),
        Ok(straddle_device::image::Opened::Image(image)) => {
            messages.extend(read(image.as_ref(), 0, 512).err());
            messages.extend(read(image.as_ref(), 12 << 20, 512).err());
            messages.extend(image.remarks().iter().cloned());
        }
    }
    let options = Options { allow_backing: allowed.to_vec(), ..Options::default() };
    if let Ok(target) = straddle_device::open(path, &options) {
        messages.extend(target.remarks);
    }
    messages
}

#[test]
fn a_backing_file_stays_closed_unless_named() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("other.raw"), [1; 512]).unwrap();
    let base = at("base.raw");
    let images = ["relative", "absolute", "prefixed", "dotted", "overlay.vmdk"].map(at);
    let names =
        ["base.raw", &base.display().to_string(), "file:base.raw", "./x/../base.raw"].map(str::to_owned);
    fs::create_dir(at("x")).unwrap();
    for (image, name) in images.iter().zip(&names) {
        let image = image.display().to_string();
        qemu_img(
            dir.path(),
            &["create", "-u", "-f", "qcow2", "-F", "raw", "-b", name, &image, &DISK.to_string()],
        );
    }
    qemu_img(dir.path(), &["convert", "-O", "vmdk", "base.raw", "base.vmdk"]);
    qemu_img(dir.path(), &["create", "-f", "vmdk", "-b", "base.vmdk", "-F", "vmdk", "overlay.vmdk"]);

    let watches = ["base.raw", "base.vmdk"].map(|name| Watch::new(&at(name)));
    for image in &images {
        // Not opened without permission, nor with permission for another file or for the folder.
        for allowed in [vec![], vec![at("other.raw")], vec![dir.path().to_owned()]] {
            let messages = use_image(image, &allowed);
            assert!(messages[0].contains(", which is not opened without --allow-backing"), "{messages:?}");
            assert!(watches.iter().all(|watch| !watch.was_opened()), "{}: {messages:?}", image.display());
        }
    }
    for image in &images[..4] {
        assert_holds(&image_with(image, std::slice::from_ref(&base)), &disk(), "overlay");
        assert!(watches[0].was_opened(), "the watch sees nothing");
    }
    assert_holds(&image_with(&images[4], &[at("base.vmdk")]), &disk(), "overlay.vmdk");
    assert!(watches[1].was_opened(), "the watch sees nothing");
    // Named through another path to the same file.
    symlink("base.raw", at("link")).unwrap();
    assert_holds(&image_with(&images[0], &[at("link")]), &disk(), "by a link");
}

#[test]
fn a_secret_is_not_read_by_naming_it() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("image");
    // A file that exists, one that does not, an endless device, a FIFO, and names that are not paths.
    let odd = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &odd, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for name in
        ["/etc/passwd", "/nonexistent/file", "/dev/zero", "json:{}", "nbd://localhost", odd.to_str().unwrap()]
    {
        qemu_img(
            dir.path(),
            &["create", "-u", "-f", "qcow2", "-F", "raw", "-b", "PLACEHOLDER", "image", "1M"],
        );
        let mut bytes = fs::read(&image).unwrap();
        let at = usize::try_from(u64::from_be_bytes(bytes[8..16].try_into().unwrap())).unwrap();
        put(&mut bytes, at, name.as_bytes());
        put(&mut bytes, 16, &u32::try_from(name.len()).unwrap().to_be_bytes());
        fs::write(&image, &bytes).unwrap();
        let messages = use_image(&image, &[]);
        let wanted = format!("needs the backing file {}, which is not opened", name.escape_debug());
        assert!(messages[0].contains(&wanted), "{messages:?}");
    }
    // A FIFO is refused even if the user names it.
    let messages = use_image(&image, std::slice::from_ref(&odd));
    assert!(messages[0].contains("not a regular file"), "{messages:?}");
}

#[test]
fn a_name_cannot_write_to_the_terminal() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let name = format!("\u{1b}]0;title\u{7}{}", "x".repeat(500));
    qemu_img(dir.path(), &["create", "-u", "-f", "qcow2", "-F", "raw", "-b", &name, "image", "1M"]);
    let messages = use_image(&dir.path().join("image"), &[]).join("");
    assert!(
        !messages.contains(|c: char| c.is_control())
            && messages.contains("\\u{1b}]0;title")
            && messages.contains('…')
    );
}

#[test]
fn circles_end() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (image, below) in [("a", "b"), ("b", "a"), ("new", "self")] {
        qemu_img(dir.path(), &["create", "-u", "-f", "qcow2", "-F", "qcow2", "-b", below, image, "1M"]);
    }
    // qemu-img refuses to create such an image.
    fs::rename(at("new"), at("self")).unwrap();
    fs::write(at("c.vhd"), differencing_vhd("d.vhd", &[])).unwrap();
    fs::write(at("d.vhd"), differencing_vhd("c.vhd", &[])).unwrap();
    differencing_vhdx(dir.path(), "e.vhdx", "f.vhdx");
    differencing_vhdx(dir.path(), "f.vhdx", "e.vhdx");
    let all: Vec<PathBuf> = ["a", "b", "self", "c.vhd", "d.vhd", "e.vhdx", "f.vhdx"].map(at).into();
    for image in &all {
        let messages = use_image(image, &all);
        assert!(
            messages[0].contains("probably refers to itself, because ") && messages[0].contains(" number 17"),
            "{}: {messages:?}",
            image.display()
        );
    }
}

#[test]
fn a_chain_of_sixteen_is_followed() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("0"), noise(1).take(4096).collect::<Vec<u8>>()).unwrap();
    for index in 1..=17_u32 {
        let (below, image) = ((index - 1).to_string(), index.to_string());
        let format = if index == 1 { "raw" } else { "qcow2" };
        qemu_img(dir.path(), &["create", "-u", "-f", "qcow2", "-F", format, "-b", &below, &image, "8k"]);
    }
    let all: Vec<PathBuf> = (0..17_u32).map(|index| dir.path().join(index.to_string())).collect();
    let image = image_with(&dir.path().join("16"), &all);
    assert!(read(&image, 0, 4096).unwrap().into_iter().eq(noise(1).take(4096)));
    // The base is the shorter file.
    assert_eq!(read(&image, 4096, 4096).unwrap(), vec![0; 4096]);
    assert!(open_with(&dir.path().join("17"), &all).is_err());
}

/// The block size of the VHDs and VHDXs created here, and the size of their disk of two and a half blocks.
const BLOCK: usize = 2 << 20;
const SMALL: usize = BLOCK * 5 / 2;

/// Builds a differencing VHD: block 1 has the given sectors, filled with 0xEE.
fn differencing_vhd(parent: &str, sectors: &[usize]) -> Vec<u8> {
    let mut footer = vec![0; 512];
    put(&mut footer, 0, b"conectix");
    put(&mut footer, 8, &2_u32.to_be_bytes());
    put(&mut footer, 12, &0x1_0000_u32.to_be_bytes());
    put(&mut footer, 16, &512_u64.to_be_bytes());
    put(&mut footer, 48, &(SMALL as u64).to_be_bytes());
    put(&mut footer, 60, &4_u32.to_be_bytes());
    sign_vhd(&mut footer, 64);
    let mut header = vec![0; 1024];
    put(&mut header, 0, b"cxsparse");
    put(&mut header, 8, &[0xFF; 8]);
    put(&mut header, 16, &2048_u64.to_be_bytes());
    put(&mut header, 24, &0x1_0000_u32.to_be_bytes());
    put(&mut header, 28, &3_u32.to_be_bytes());
    put(&mut header, 32, &u32::try_from(BLOCK).unwrap().to_be_bytes());
    // A relative path in UTF-16LE, at byte 1536.
    let path: Vec<u8> = format!(".\\{parent}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(&mut header, 576, b"W2ru");
    put(&mut header, 584, &u32::try_from(path.len()).unwrap().to_be_bytes());
    put(&mut header, 592, &1536_u64.to_be_bytes());
    sign_vhd(&mut header, 36);
    let mut file = [footer.clone(), header].concat();
    file.resize(2048, 0);
    put(&mut file, 1536, &path);
    file.resize(2560, 0xFF);
    // The block: 512 bytes of bitmap, highest bit first.
    put(&mut file, 2052, &5_u32.to_be_bytes());
    let bitmap_at = file.len();
    file.resize(bitmap_at + 512 + BLOCK, 0);
    for sector in sectors {
        file[bitmap_at + sector / 8] |= 0x80 >> (sector % 8);
        file[bitmap_at + 512 + sector * 512..][..512].fill(0xEE);
    }
    file.extend(footer);
    file
}

/// Returns the contents of the parent and of its differencing child.
fn family(sectors: &[usize], parent_len: usize) -> (Vec<u8>, Vec<u8>) {
    let parent: Vec<u8> = noise(9).take(parent_len).collect();
    let mut child = parent.clone();
    for sector in sectors {
        child[BLOCK + sector * 512..][..512].fill(0xEE);
    }
    (parent, child)
}

const SECTORS: [usize; 12] = [0, 7, 8, 9, 16, 17, 18, 100, 1023, 2048, 4094, 4095];

#[test]
fn a_differencing_vhd_is_read_over_its_parent() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (parent, child) = family(&SECTORS, SMALL);
    fs::write(at("raw"), parent).unwrap();
    qemu_img(dir.path(), &["convert", "-O", "vpc", "-o", "force_size=on", "raw", "base.vhd"]);
    fs::write(at("child.vhd"), differencing_vhd("base.vhd", &SECTORS)).unwrap();
    let image = image_with(&at("child.vhd"), &[at("base.vhd")]);
    assert_eq!(image.container().variant, "differencing");
    assert_holds(&image, &child, "child.vhd");
    only_its_own(&image_with(&at("child.vhd"), &[]));
}

/// Checks that without the parent only the child's own sectors can be read.
fn only_its_own(child: &Image) {
    let start = u64::try_from(BLOCK).unwrap();
    assert_eq!(read(child, start + 7 * 512, 3 * 512).unwrap(), vec![0xEE; 1536]);
    for at in [0, start + 512, start + 10 * 512] {
        let error = read(child, at, 512).unwrap_err();
        assert!(error.contains("needs the parent") && error.contains(&format!("byte {at} of")), "{error}");
    }
}

/// Builds a differencing VHDX from an empty one that qemu-img wrote: block 1 has [`SECTORS`], filled with
/// 0xEE.
fn differencing_vhdx(dir: &Path, name: &str, parent: &str) {
    let (block, size) = (format!("block_size={BLOCK}"), SMALL.to_string());
    qemu_img(dir, &["create", "-f", "vhdx", "-o", &block, name, &size]);
    let path = dir.join(name);
    let mut bytes = fs::read(&path).unwrap();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let region = |first: u8| {
        let at = (0..4).map(|entry| (192 << 10) + 16 + entry * 32).find(|at| bytes[*at] == first).unwrap();
        usize::try_from(number(&bytes, at + 16)).unwrap()
    };
    let (bat, metadata) = (region(0x66), region(0x06));
    let count = usize::from(bytes[metadata + 10]);
    // The file parameters say that there is a parent; an additional item names it.
    let parameters = (0..count).map(|item| metadata + 32 + item * 32).find(|at| bytes[*at] == 0x37).unwrap();
    let item = u32::from_le_bytes(bytes[parameters + 16..parameters + 20].try_into().unwrap());
    bytes[metadata + usize::try_from(item).unwrap() + 4] |= 2;
    bytes[metadata + 10] += 1;
    let entry = metadata + 32 + count * 32;
    let locator = 0x2D5F_D3A8_0BB3_4D45_ABF7_D3D8_4834_AB0C_u128.to_be_bytes();
    put(&mut bytes, entry, &[0x2D, 0x5F, 0xD3, 0xA8, 0x0B, 0xB3, 0x4D, 0x45]);
    put(&mut bytes, entry + 8, &locator[8..]);
    put(&mut bytes, entry + 16, &0x2_0000_u32.to_le_bytes());
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let (key, value) = (utf16("relative_path"), utf16(&format!(".\\{parent}")));
    let at = metadata + 0x2_0000;
    bytes[at + 18] = 1;
    put(&mut bytes, at + 20, &64_u32.to_le_bytes());
    put(&mut bytes, at + 24, &128_u32.to_le_bytes());
    put(&mut bytes, at + 28, &u16::try_from(key.len()).unwrap().to_le_bytes());
    put(&mut bytes, at + 30, &u16::try_from(value.len()).unwrap().to_le_bytes());
    put(&mut bytes, at + 64, &key);
    put(&mut bytes, at + 128, &value);
    // Blocks 0 and 2 are absent, block 1 is partially present. The bitmap's entry follows those of its chunk.
    let end = bytes.len().next_multiple_of(1 << 20);
    let ratio = (1 << 23) * 512 / BLOCK;
    put(&mut bytes, bat, &0_u64.to_le_bytes());
    put(&mut bytes, bat + 8, &(end as u64 | 7).to_le_bytes());
    put(&mut bytes, bat + 16, &0_u64.to_le_bytes());
    put(&mut bytes, bat + ratio * 8, &((end + BLOCK) as u64 | 6).to_le_bytes());
    bytes.resize(end + BLOCK + (1 << 20), 0);
    for sector in SECTORS {
        bytes[end + sector * 512..][..512].fill(0xEE);
        let bit = BLOCK / 512 + sector;
        bytes[end + BLOCK + bit / 8] |= 1 << (bit % 8);
    }
    fs::write(&path, &bytes).unwrap();
}

#[test]
fn a_differencing_vhdx_is_read_over_its_parent() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (parent, child) = family(&SECTORS, SMALL);
    fs::write(at("raw"), parent).unwrap();
    qemu_img(dir.path(), &["convert", "-O", "vhdx", "raw", "base.vhdx"]);
    differencing_vhdx(dir.path(), "child.vhdx", "base.vhdx");
    let image = image_with(&at("child.vhdx"), &[at("base.vhdx")]);
    assert_eq!(image.container().variant, "differencing");
    assert_holds(&image, &child, "child.vhdx");
    only_its_own(&image_with(&at("child.vhdx"), &[]));
}

#[test]
fn an_overlays_own_clusters_go_before_the_backing_files() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = folder();
    let size = DISK.to_string();
    for options in ["extended_l2=off", "extended_l2=on", "cluster_size=512"] {
        qemu_img(
            dir.path(),
            &["create", "-f", "qcow2", "-o", options, "-F", "raw", "-b", "base.raw", "top", &size],
        );
        // qemu-io writes sectors in the middle of clusters, and zeros.
        for command in ["write -P 0xEE 4096 2048", "write -z 3145728 65536", "write -P 0xDD 12582912 70144"] {
            let output =
                std::process::Command::new("qemu-io").args(["-c", command, "top"]).current_dir(&dir).output();
            assert!(output.unwrap().status.success(), "{command}");
        }
        qemu_img(dir.path(), &["convert", "-O", "raw", "top", "merged"]);
        let merged = fs::read(dir.path().join("merged")).unwrap();
        let image = image_with(&dir.path().join("top"), &[dir.path().join("base.raw")]);
        assert_holds(&image, &merged, options);
        // None of this wrote to the base.
        let mut base = [0; 512];
        File::open(dir.path().join("base.raw")).unwrap().read_exact_at(&mut base, 0).unwrap();
        assert_eq!(base[..], disk()[..512]);
    }
}
