//! sfdisk scripts, as `sfdisk --dump` prints and `sfdisk` reads (sfdisk(8), "Named-fields format"). A dump of
//! a plan, read back, requests the same table. Anything not understood is an error.

use std::fmt::Write;

use crate::error::PlanError;
use crate::plan::{Format, Plan};
use crate::request::{Part, Place, Request, Size};

/// Returns the script that makes `plan`'s table on `device`.
pub fn to_sfdisk(plan: &Plan, device: &str) -> String {
    let table = &plan.table;
    let (label, id) = match table.format {
        Format::Gpt => ("gpt", table.id.clone()),
        Format::Mbr => ("dos", format!("0x{}", table.id)),
    };
    let mut text = format!("label: {label}\nlabel-id: {id}\ndevice: {device}\nunit: sectors\n");
    if table.format == Format::Gpt {
        let _ = writeln!(text, "first-lba: {}\nlast-lba: {}", table.first_usable, table.last_usable);
        if table.entries != 128 {
            let _ = writeln!(text, "table-length: {}", table.entries);
        }
    }
    let _ = writeln!(text, "sector-size: {}\n", plan.block());
    let separator = if device.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    for entry in &table.partitions {
        let _ = write!(
            text,
            "{device}{separator}{} : start={:>12}, size={:>12}, type={}",
            entry.number, entry.start, entry.sectors, entry.kind
        );
        if let Some(uuid) = &entry.uuid {
            let _ = write!(text, ", uuid={uuid}");
        }
        if !entry.name.is_empty() {
            let _ = write!(text, ", name=\"{}\"", escaped(&entry.name));
        }
        if entry.attributes != 0 {
            let _ = write!(text, ", attrs=\"{}\"", attributes(entry.attributes));
        }
        if entry.bootable {
            text.push_str(", bootable");
        }
        text.push('\n');
    }
    text
}

/// Escapes a name as sfdisk does: characters special to a shell, and everything but printable ASCII, as
/// hexadecimal bytes (`fputs_quoted`, lib/fileutils.c).
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b' '..=b'~' if !b"\"\\`$".contains(&byte) => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let digits = rest.get(at + 2..at + 4).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(b"\\x"),
        }
        rest = &rest[at + if digits.is_some() { 4 } else { 2 }..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names of the first three attribute bits; the others are printed as numbers (libfdisk/src/gpt.c).
const NAMED_BITS: [&str; 3] = ["RequiredPartition", "NoBlockIOProtocol", "LegacyBIOSBootable"];

fn attributes(bits: u64) -> String {
    let word = |bit: usize| match NAMED_BITS.get(bit) {
        Some(name) => (*name).to_owned(),
        None if bit >= 48 => format!("GUID:{bit}"),
        None => bit.to_string(),
    };
    let set: Vec<String> = (0..64).filter(|bit| bits >> bit & 1 == 1).map(word).collect();
    set.join(" ")
}

fn parse_attributes(text: &str) -> Result<u64, PlanError> {
    let unknown = |word: &str| PlanError::Syntax(format!("attrs: '{word}' is not an attribute"));
    let mut bits = 0;
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let number = word.strip_prefix("GUID:").unwrap_or(word);
        let by_name = NAMED_BITS.iter().position(|name| *name == word);
        let bit = by_name.or_else(|| number.parse().ok()).filter(|bit| *bit < 64);
        bits |= 1_u64 << bit.ok_or_else(|| unknown(word))?;
    }
    Ok(bits)
}

/// Adds what a script asks for to `request`.
pub fn from_sfdisk(text: &str, request: &mut Request) -> Result<(), PlanError> {
    for (line, number) in text.lines().zip(1_u32..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        read_line(line, request).map_err(|error| PlanError::Syntax(format!("line {number}: {error}")))?;
    }
    // The extended partition is made automatically for the logical ones.
    request.extended = request.parts.iter().find_map(|part| extended(part.kind.as_deref()?));
    request.parts.retain(|part| part.kind.as_deref().and_then(extended).is_none());
    if request.table == Some(Format::Gpt) {
        return Ok(());
    }
    let start_of = |part: &Part| match part.start {
        Some(Place::Sector(sector)) => Some(sector),
        _ => None,
    };
    // A script lists primary partitions before logical ones, even those that lie after them.
    if request.parts.iter().all(|part| start_of(part).is_some()) {
        request.parts.sort_by_key(start_of);
    }
    for part in &mut request.parts {
        part.logical = part.number.is_some_and(|number| number > 4);
    }
    Ok(())
}

/// Returns the type of an extended partition; `None` of any other type.
fn extended(kind: &str) -> Option<u8> {
    let kind = u8::from_str_radix(kind.trim_start_matches("0x"), 16).ok()?;
    straddle_layout::types::is_extended(kind).then_some(kind)
}

fn read_line(line: &str, request: &mut Request) -> Result<(), PlanError> {
    let (before, after) = match line.split_once(':') {
        // After an equals sign or a comma, the colon is in a value, and the line names no device.
        Some((before, after)) if !before.contains(['=', ',']) => (before.trim(), after.trim()),
        _ => ("", line),
    };
    let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let is_header = !before.is_empty() && !after.contains('=') && digits == before.len();
    if !is_header {
        let mut part = Part { number: before[digits..].parse().ok(), ..Part::new(Size::Rest) };
        fields(after, &mut part)?;
        request.parts.push(part);
        return Ok(());
    }
    let unknown = || PlanError::Syntax(format!("unknown header line '{before}: {after}'"));
    match before {
        "label" => {
            request.table = Some(match after {
                "gpt" => Format::Gpt,
                "dos" | "mbr" => Format::Mbr,
                _ => return Err(unknown()),
            });
        }
        "label-id" => {
            let id = after.trim_start_matches("0x");
            request.disk_id =
                Some(if after.starts_with("0x") { format!("{id:0>8}") } else { id.to_uppercase() });
        }
        "grain" => {
            let grain =
                straddle_units::parse_size(after).map_err(|error| PlanError::Syntax(error.to_string()))?;
            request.grain = Some(grain).filter(|grain| grain.get() != 0).or(request.grain);
        }
        "unit" if after == "sectors" => {}
        "device" | "first-lba" | "last-lba" | "sector-size" | "table-length" => {}
        _ => return Err(unknown()),
    }
    Ok(())
}

/// Parses `start=2048, size=4096, type=…, name="a, b", bootable`.
fn fields(text: &str, part: &mut Part) -> Result<(), PlanError> {
    let mut rest = text;
    while !rest.trim().is_empty() {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        let end = rest.find(['=', ',', ' ']).unwrap_or(rest.len());
        let key = &rest[..end];
        let Some(value) = rest[end..].trim_start().strip_prefix('=') else {
            match key {
                "bootable" => part.bootable = true,
                "" => return Ok(()),
                _ => return Err(PlanError::Syntax(format!("unknown field '{key}'"))),
            }
            rest = &rest[end..];
            continue;
        };
        let value = value.trim_start();
        let (value, following) = match value.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or_else(|| PlanError::Syntax(format!("{key}: the closing quotation mark is missing")))?,
            None => value.split_at(value.find([',', ' ']).unwrap_or(value.len())),
        };
        rest = following;
        field(key, value, part)?;
    }
    Ok(())
}

fn field(key: &str, value: &str, part: &mut Part) -> Result<(), PlanError> {
    let with_unit = |value: &str| {
        if value.ends_with(|c: char| c.is_ascii_digit()) { format!("{value}s") } else { value.to_owned() }
    };
    match key {
        "start" => part.start = Some(with_unit(value).parse::<Place>()?),
        "size" if value == "+" => part.size = Size::Rest,
        "size" => part.size = with_unit(value).parse()?,
        "type" | "Id" => part.kind = Some(alias(value).to_owned()),
        "uuid" => part.uuid = Some(value.to_uppercase()),
        "name" => part.name = unescaped(value),
        "attrs" => part.attributes = parse_attributes(value)?,
        "bootable" => part.bootable = true,
        _ => return Err(PlanError::Syntax(format!("unknown field '{key}'"))),
    }
    Ok(())
}

/// sfdisk's one-letter type names (sfdisk(8)).
fn alias(kind: &str) -> &str {
    match kind {
        "L" => "linux",
        "S" => "swap",
        "H" => "home",
        "U" => "esp",
        "R" => "raid",
        "V" => "lvm",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guid::Seed;

    fn read(text: &str) -> Result<Request, PlanError> {
        let mut request = Request::new(Seed(1));
        from_sfdisk(text, &mut request).map(|()| request)
    }

    #[test]
    fn scripts_are_read() {
        let text = "label: gpt\nunit: sectors\n\n/dev/sda1 : start=2048, size= 4096, type=U, name=\"a, b\", attrs=\"LegacyBIOSBootable GUID:63\"\nsize=1M\n, type=L\n# nothing\n";
        let request = read(text).unwrap();
        assert_eq!(request.table, Some(Format::Gpt));
        let first = &request.parts[0];
        assert_eq!(
            (first.number, first.start, first.size),
            (Some(1), Some(Place::Sector(2048)), Size::Sectors(4096))
        );
        assert_eq!((first.name.as_str(), first.kind.as_deref()), ("a, b", Some("esp")));
        assert_eq!(first.attributes, 1 << 2 | 1 << 63);
        assert_eq!(attributes(first.attributes), "LegacyBIOSBootable GUID:63");
        assert_eq!(request.parts[1].size, Size::Bytes(straddle_units::ByteCount::new(1 << 20)));
        assert_eq!((request.parts.len(), request.parts[2].size), (3, Size::Rest));
    }

    #[test]
    fn names_survive_quotation() {
        for name in ["", "plain", "größer", "a\"b\\c $(x) `y`", "\\x", "\\x4", "a, b=c"] {
            assert_eq!(unescaped(&escaped(name)), name);
            assert!(!escaped(name).contains('"'), "{name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_line() {
        for text in ["label: bsd", "\nwhat=1", "name=\"x", "start=x", "grain: x", "attrs=99"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with("line "), "{text}: {error}");
        }
    }
}
