//! Files that are not images but may hold a disk in another form: no raw images unless the user says so. Compressed
//! ones can be read through (`through.rs`); the others are not read.
//!
//! Sources: qemu `block/{qcow,vmdk,dmg,bochs,cloop}.c`; VMware "Virtual Disk Format 5.0" and VMFSsparse of
//! ESX; wimlib `include/wimlib/header.h`; file(1) `magic/Magdir/{compress,archive,filesystems,forensics}`;
//! RFC 1952, RFC 8878, and the .xz file format 1.2.

use std::path::Path;

use straddle_units::ByteOffset;

use super::through::Packing;
use crate::fields::{has, le32};
use crate::medium::Medium;
use crate::shown::quote_path;

const ENDINGS: &str =
    "cow dmg vbox ova ovf vmx e01 aff sparseimage sparsebundle wim zip gz xz zst bz2 lz4 7z";

/// The inner `None`: qemu-img does not write it. The outer: the ending promises no form.
pub(super) fn qemu_name(ending: &str) -> Option<Option<&'static str>> {
    match ending {
        "qcow" => Some(Some("qcow")),
        ending => ENDINGS.split(' ').any(|known| known == ending).then_some(None),
    }
}

/// A form in which a file may hold a disk, and how to extract the disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What the file is: "a gzip file".
    pub what: &'static str,
    /// The command that makes a raw image of it; FILE stands for the file. Empty where there is no usual one.
    command: &'static str,
    magic: Magic,
    /// How it is compressed, where it can be read through.
    pub(crate) packing: Option<Packing>,
}

impl Foreign {
    /// Returns the command that makes a raw image of `file`, whose name is quoted for a shell where needed.
    pub fn command(&self, file: &str) -> Option<String> {
        let quoted = |name: &str| quote_path(Path::new(name));
        let raw = quoted(&raw_name(file));
        let line = self.command.replace("FILE.raw", "\u{0}").replace("FILE", &quoted(file));
        (!line.is_empty()).then(|| line.replace('\u{0}', &raw))
    }
}

/// The file that a command makes of `file`: one that does not exist, since the shell would overwrite it.
pub fn raw_name(file: &str) -> String {
    let name = |number: u32| if number == 0 { format!("{file}.raw") } else { format!("{file}.{number}.raw") };
    (0..).map(name).find(|name| !Path::new(name).exists()).unwrap_or_else(|| name(0))
}

#[derive(Debug, PartialEq, Eq)]
enum Magic {
    At(usize, &'static [u8]),
    Both(&'static [u8], usize, &'static [u8]),
    BeforeEnd(usize, &'static [u8]),
    /// These bytes in the frame after a skippable one (RFC 8878, 3.1.2; lz4 `doc/lz4_Frame_format.md`).
    Skippable(&'static [u8]),
}

const fn form(what: &'static str, magic: Magic, command: &'static str) -> Foreign {
    Foreign { what, command, magic, packing: None }
}

const fn packed(packing: Packing, magic: Magic, command: &'static str) -> Foreign {
    Foreign { what: packing.a_file(), command, magic, packing: Some(packing) }
}

const CONVERT: &str = "qemu-img convert -O raw FILE FILE.raw";
const CONVERT_VMDK: &str = "qemu-img convert -f vmdk -O raw FILE FILE.raw";
const CONVERT_DMG: &str = "qemu-img convert -f dmg -O raw FILE FILE.raw";
const CONVERT_CLOOP: &str = "qemu-img convert -f cloop -O raw FILE FILE.raw";
const EXPORT_EWF: &str = "ewfexport -f raw -t FILE.raw FILE";
const UNPACK: &str = "tar -xf FILE";

/// All known forms.
pub const FORMS: &[Foreign] = &[
    packed(Packing::Gzip, Magic::At(0, b"\x1f\x8b\x08"), "gzip -dc FILE > FILE.raw"),
    packed(Packing::Xz, Magic::At(0, b"\xfd7zXZ\0"), "xz -dc FILE > FILE.raw"),
    packed(Packing::Zstd, Magic::At(0, b"\x28\xb5\x2f\xfd"), "zstd -dc FILE > FILE.raw"),
    packed(Packing::Bzip2, Magic::Both(b"BZh", 4, b"1AY&SY"), "bzip2 -dc FILE > FILE.raw"),
    // Skippable frames, as pzstd writes before each of its own frames. lz4 has the same.
    form("a zstd file", Magic::Skippable(b"\x28\xb5\x2f\xfd"), "zstd -dc FILE > FILE.raw"),
    form("an lz4 file", Magic::Skippable(b"\x04\x22\x4d\x18"), "lz4 -dc FILE > FILE.raw"),
    form("an lz4 file", Magic::At(0, b"\x02\x21\x4c\x18"), "lz4 -dc FILE > FILE.raw"),
    // The compressed form of an empty file: the end mark follows at once.
    packed(Packing::Bzip2, Magic::Both(b"BZh", 4, b"\x17\x72\x45\x38\x50\x90"), "bzip2 -dc FILE > FILE.raw"),
    form("an lz4 file", Magic::At(0, b"\x04\x22\x4d\x18"), "lz4 -dc FILE > FILE.raw"),
    form("an lzip file", Magic::At(0, b"LZIP\x01"), "lzip -dc FILE > FILE.raw"),
    form("an lzop file", Magic::At(0, b"\x89LZO\0\r\n\x1a\n"), "lzop -dc FILE > FILE.raw"),
    form("a compress(1) file", Magic::At(0, b"\x1f\x9d\x90"), "gzip -dc FILE > FILE.raw"),
    form("a tar archive", Magic::At(257, b"ustar"), UNPACK),
    form("a zip archive", Magic::At(0, b"PK\x03\x04"), "unzip FILE"),
    form("a 7z archive", Magic::At(0, b"7z\xbc\xaf\x27\x1c"), "7z x FILE"),
    form("a RAR archive", Magic::At(0, b"Rar!\x1a\x07"), "unrar x FILE"),
    form("a qcow image of version 1", Magic::At(0, b"QFI\xfb\0\0\0\x01"), CONVERT),
    form("a sparse extent of ESX (COWD)", Magic::At(0, b"COWD"), CONVERT_VMDK),
    form("a sparse extent of ESX (SEsparse)", Magic::At(0, b"\xbe\xba\xfe\xca\0\0\0\0"), CONVERT),
    form("an Apple disk image (DMG)", Magic::BeforeEnd(512, b"koly"), CONVERT_DMG),
    form("an encrypted Apple disk image (DMG)", Magic::At(0, b"encrcdsa"), ""),
    form("an encrypted Apple disk image (DMG)", Magic::BeforeEnd(8, b"cdsa"), ""),
    form("an Apple sparse image", Magic::At(0, b"sprs"), ""),
    form("a Windows image (WIM)", Magic::At(0, b"MSWIM\0\0\0"), ""),
    form("a Windows image (WIM)", Magic::At(0, b"WLPWM\0\0\0"), ""),
    form("a Norton Ghost image", Magic::At(0, b"\xfe\xef\x01"), ""),
    form("an Acronis True Image archive", Magic::At(0, b"\xb4\x6e\x68\x44"), ""),
    form("a Bochs image", Magic::At(0, b"Bochs Virtual HD Image"), CONVERT),
    form("a cloop image", Magic::At(0, b"#!/bin/sh\n#V2.0 Format\n"), CONVERT_CLOOP),
    form("an Android sparse image", Magic::At(0, b"\x3a\xff\x26\xed"), "simg2img FILE FILE.raw"),
    form("a Proxmox backup (VMA)", Magic::At(0, b"VMA\0"), ""),
    form("a partclone image", Magic::At(0, b"partclone-image"), "partclone.restore -C -s FILE -O FILE.raw"),
    form("a partimage image", Magic::At(0, b"PaRtImAgE-VoLuMe"), ""),
    form("an ntfsclone image", Magic::At(0, b"\0ntfsclone-image"), "ntfsclone -r -O FILE.raw FILE"),
    form("an fsarchiver archive", Magic::At(0, b"FsA0"), ""),
    form("an EnCase image (EWF)", Magic::At(0, b"EVF\x09\x0d\x0a\xff\0"), EXPORT_EWF),
    form("an EnCase image (EWF)", Magic::At(0, b"EVF2\x0d\x0a\x81\0"), EXPORT_EWF),
    form("an AFF image", Magic::At(0, b"AFF10\r\n\0"), "affconvert -r FILE"),
];

pub(super) fn detect(head: &[u8], tail: &[u8], medium: &dyn Medium) -> Option<&'static Foreign> {
    FORMS.iter().find(|form| match form.magic {
        Magic::At(at, magic) => has(head, at, magic),
        Magic::Both(first, at, second) => head.starts_with(first) && has(head, at, second),
        Magic::BeforeEnd(back, magic) => {
            tail.len().checked_sub(back).is_some_and(|at| tail[at..].starts_with(magic))
        }
        Magic::Skippable(magic) => follows_skippable(head, medium, magic),
    })
}

fn follows_skippable(head: &[u8], medium: &dyn Medium, magic: &[u8]) -> bool {
    if !(0x184D_2A50..=0x184D_2A5F).contains(&le32(head, 0)) || head.len() < 8 {
        return false;
    }
    let mut found = [0; 4];
    let after = ByteOffset::new(8 + u64::from(le32(head, 4)));
    medium.read_at(after, &mut found).is_ok() && found == *magic
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::{OpenError, Options};

    /// Writes the bytes that identify a form, at the place where it has them.
    fn mark(file: &mut [u8], magic: &Magic) {
        let len = file.len();
        let mut put = |at: usize, magic: &[u8]| file[at..at + magic.len()].copy_from_slice(magic);
        match magic {
            Magic::At(at, magic) => put(*at, magic),
            Magic::Both(first, at, second) => {
                put(0, first);
                put(*at, second);
            }
            Magic::BeforeEnd(back, magic) => put(len - back, magic),
            Magic::Skippable(magic) => {
                put(0, b"\x50\x2a\x4d\x18\x04\0\0\0");
                put(12, magic);
            }
        }
    }

    /// Checks every row with a file that has only its magic: it is reported by its own name and by no other
    /// row's.
    #[test]
    fn each_form_is_known_by_its_own_bytes() {
        let dir = TempDir::new().unwrap();
        for form in FORMS {
            // A short file, and one long enough for an MBR.
            for len in [1024, 70_000] {
                let path = dir.path().join("file");
                let mut file = vec![0x42; len];
                mark(&mut file, &form.magic);
                fs::write(&path, &file).unwrap();
                let error = crate::open(&path, &Options::default()).err();
                assert!(matches!(error, Some(OpenError::NotRead { .. })), "{}: {error:?}", form.what);
                let said = error.map(|error| error.to_string()).unwrap_or_default();
                assert!(said.contains(form.what), "{}: {said}", form.what);
            }
        }
    }
}
