//! The text descriptor of a VMDK.

use super::super::ImageError;
use super::super::host::Host;

const FIRST_LINE: &[u8] = b"# disk descriptorfile";

/// A disk of 32 TiB in extents of 2 GiB.
const MAX_EXTENTS: usize = 16384;

const SECTOR: u64 = 512;

pub(crate) fn is_descriptor(head: &[u8]) -> bool {
    head.get(..FIRST_LINE.len()).is_some_and(|line| line.eq_ignore_ascii_case(FIRST_LINE))
}

/// Compressed, and written once from start to end. QEMU reads such images but does not write to them.
pub(in crate::image) const STREAM_OPTIMIZED: &str = "streamOptimized";

const VARIANTS: [&str; 9] = [
    "monolithicSparse",
    "monolithicFlat",
    "twoGbMaxExtentSparse",
    "twoGbMaxExtentFlat",
    STREAM_OPTIMIZED,
    "vmfs",
    "vmfsThin",
    "vmfsEagerZeroedThick",
    "custom",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flat,
    Sparse,
    Zero,
}

/// Lengths and offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) len: u64,
    pub(super) kind: Kind,
    pub(super) name: Vec<u8>,
    pub(super) offset: u64,
}

pub(super) struct Descriptor {
    pub(super) variant: &'static str,
    pub(super) extents: Vec<Extent>,
    pub(super) parent: Option<Vec<u8>>,
}

impl Descriptor {
    pub(super) fn read(host: &Host, at: u64, len: u64) -> Result<Self, ImageError> {
        let mut text = host.vec(at, len)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(end);
        Self::parse(&text).map_err(|wrong| match wrong {
            Wrong::Damaged(offset, what) => host.damaged(at.saturating_add(offset), what),
            Wrong::Unsupported(offset, what) => host.unsupported(at.saturating_add(offset), what),
        })
    }

    fn parse(text: &[u8]) -> Result<Self, Wrong> {
        let mut found = Self { variant: "other", extents: Vec::new(), parent: None };
        let (mut has_parent, mut hint) = (false, None);
        let mut offset = 0;
        let mut sum = 0_u64;
        for line in text.split(|byte| *byte == b'\n') {
            let at = offset;
            offset += line.len() as u64 + 1;
            let line = line.trim_ascii();
            if let Some(extent) = extent(line, at)? {
                sum = sum.saturating_add(extent.len);
                if found.extents.len() >= MAX_EXTENTS || i64::try_from(sum).is_err() {
                    return Err(Wrong::Damaged(at, "the descriptor lists too many extents".to_owned()));
                }
                found.extents.push(extent);
            } else if let Some(value) = value_of(line, b"createType") {
                let known = VARIANTS.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(value));
                found.variant = known.unwrap_or(&"other");
            } else if let Some(value) = value_of(line, b"parentCID") {
                has_parent = !value.eq_ignore_ascii_case(b"ffffffff");
            } else if let Some(value) = value_of(line, b"parentFileNameHint") {
                hint = Some(value.to_vec());
            }
        }
        if has_parent {
            found.parent = Some(hint.unwrap_or_default());
        }
        Ok(found)
    }
}

enum Wrong {
    Damaged(u64, String),
    Unsupported(u64, String),
}

/// `key=value` or `key = "value"`.
fn value_of<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let (name, value) = line.split_at_checked(key.len())?;
    if !name.eq_ignore_ascii_case(key) {
        return None;
    }
    let value = value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    Some(value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value))
}

/// Such as `RW 4192256 SPARSE "name" 0`; `None` for other lines. `at` is the line's offset.
fn extent(line: &[u8], at: u64) -> Result<Option<Extent>, Wrong> {
    let mut words = line.splitn(4, u8::is_ascii_whitespace);
    let Some(b"RW" | b"RDONLY" | b"NOACCESS") = words.next() else { return Ok(None) };
    let shown = || String::from_utf8_lossy(&line[..line.len().min(64)]).escape_debug().to_string();
    let wrong = || Wrong::Damaged(at, format!("the extent line '{}'", shown()));
    let len = words.next().and_then(sectors).ok_or_else(wrong)?;
    let kind = match words.next().ok_or_else(wrong)? {
        b"FLAT" | b"VMFS" => Kind::Flat,
        b"SPARSE" => Kind::Sparse,
        b"ZERO" => Kind::Zero,
        _ => return Err(Wrong::Unsupported(at, format!("the extent line '{}'", shown()))),
    };
    let rest = words.next().unwrap_or_default().trim_ascii();
    if kind == Kind::Zero {
        return Ok(Some(Extent { len, kind, name: Vec::new(), offset: 0 }));
    }
    let quoted = rest.strip_prefix(b"\"").ok_or_else(wrong)?;
    let end = quoted.iter().rposition(|byte| *byte == b'"').ok_or_else(wrong)?;
    let after = quoted[end + 1..].trim_ascii();
    let offset =
        if after.is_empty() || kind == Kind::Sparse { 0 } else { sectors(after).ok_or_else(wrong)? };
    // The end of the extent has to be a valid offset too.
    offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()).ok_or_else(wrong)?;
    Ok(Some(Extent { len, kind, name: quoted[..end].to_vec(), offset }))
}

fn sectors(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse::<u64>().ok()?.checked_mul(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_line_is_a_length_a_kind_a_name_and_an_offset() {
        let read = |line: &str| extent(line.as_bytes(), 0).ok().flatten();
        let flat = Extent { len: 1024, kind: Kind::Flat, name: b"a \"b\".vmdk".to_vec(), offset: 512 };
        assert_eq!(read("RW 2 FLAT \"a \"b\".vmdk\" 1"), Some(flat));
        assert_eq!(read("RW 2 ZERO").map(|e| e.kind), Some(Kind::Zero));
        assert_eq!(read("RW 2 SPARSE \"x\"").map(|e| e.offset), Some(0));
        assert_eq!(read("ddb.adapterType = \"ide\""), None);
        for wrong in
            ["RW", "RW x FLAT \"a\" 0", "RW 2 FLAT a 0", "RW 99999999999999999999 ZERO", "RW 2 VMFSRDM \"a\""]
        {
            assert!(extent(wrong.as_bytes(), 0).is_err(), "{wrong}");
        }
    }
}
