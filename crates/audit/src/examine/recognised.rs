//! What there is to judge on a target: its recognised content, and other content beside that.

use crate::Recognised;
use straddle_device::shown::with_causes;
use straddle_device::{DeviceKind, Target};
use straddle_layout::layer::Layer;
use straddle_layout::{Beside, Class, Content, Named, Neighbour, Partition, Stack, TableKind};
use straddle_units::{ByteOffset, KERNEL_SECTOR};

use crate::examine::{Examiner, in_use, member};

const NAMED: usize = 8;

fn first_of(named: &mut Vec<String>) {
    if named.len() > NAMED {
        let more = named.split_off(NAMED).len();
        named.push(format!("{more} more"));
    }
}

pub(crate) fn beside(target: &Target, stack: &Stack) -> Vec<Beside> {
    if matches!(stack.kind, TableKind::Kernel | TableKind::None) {
        return Vec::new();
    }
    let found = target.medium.as_deref().map(|medium| straddle_layout::beside(medium, stack));
    found.and_then(Result::ok).unwrap_or_default()
}

pub(crate) fn remarks_beside(target: &Target, stack: &Stack, found: &[Beside]) -> Vec<String> {
    let is_of_member = matches!(stack.kind, TableKind::Content(content) if content.is_array_member());
    let rival = || target.medium.as_deref().map(|medium| straddle_layout::rival_table(medium, stack));
    let may_be_arrays = || is_of_member && matches!(rival(), Some(Ok(None)));
    let remark = |found: &Beside| match found.what {
        Neighbour::Table(name) if may_be_arrays() => format!(
            "it also has a partition table ({name}), which is the array's or a leftover; to see the \
             partitions, check the array"
        ),
        Neighbour::Table(name) => format!("it also has a partition table ({name})"),
        Neighbour::Content(content) => format!("it also holds {content}"),
    };
    found.iter().map(remark).collect()
}

pub(crate) fn remark_by_name(target: &Target, stack: &Stack) -> Option<String> {
    let whole = match stack.kind {
        TableKind::Content(content) => Some(content),
        _ => None,
    };
    let mut named = Vec::new();
    by_name(whole, stack.layer.as_ref(), String::new, &mut named);
    for partition in
        stack.partitions.iter().filter(|p| target.partition.is_none_or(|asked| asked == p.number))
    {
        let place = || format!(" (partition {})", partition.number);
        by_name(partition.content, partition.layer.as_ref(), place, &mut named);
    }
    first_of(&mut named);
    let (verb, checked) = match named.len() {
        0 => return None,
        1 => ("is", "its start is checked, but its contents are not"),
        _ => ("are", "their starts are checked, but their contents are not"),
    };
    Some(format!("{} {verb} recognised only by name: {checked}", named.join(", ")))
}

fn by_name(
    content: Option<Content>,
    layer: Option<&Layer>,
    place: impl Fn() -> String,
    named: &mut Vec<String>,
) {
    let is_by_name = |kind: &Content| {
        matches!(
            kind,
            Content::Named(Named { class: Class::Member | Class::FileSystem | Class::Optical, .. })
        )
    };
    let mut layers: Vec<&Layer> = layer.into_iter().collect();
    let mut kinds: Vec<Content> = content.filter(|_| layers.is_empty()).into_iter().collect();
    while let Some(layer) = layers.pop() {
        kinds.push(layer.kind);
        layers.extend(&layer.children);
    }
    named.extend(kinds.iter().filter(|kind| is_by_name(kind)).map(|kind| format!("{kind}{}", place())));
}

/// What lists data on the target and is not read: these data are not judged.
fn not_read(target: &Target, stack: &Stack) -> Option<String> {
    let is_asked = |p: &&Partition| target.partition.is_none_or(|asked| asked == p.number);
    let mut dynamic = Vec::new();
    let mut found = Vec::new();
    for partition in stack.partitions.iter().filter(is_asked) {
        let number = partition.number;
        match Stack::unread(partition).or_else(|| in_layer(partition.layer.as_ref()?)) {
            Some(straddle_layout::LDM) => dynamic.push(number.to_string()),
            Some(table) => found.push(format!("partition {number} holds a table of type {table}")),
            None => {}
        }
    }
    let whole = stack.layer.as_ref().and_then(in_layer);
    found.extend(whole.map(|table| format!("a layer on it holds a table of type {table}")));
    match dynamic.as_slice() {
        [] => {}
        [one] => found.push(format!("partition {one} is part of a Windows dynamic disk (LDM)")),
        all => found.push(format!("partitions {} are parts of a Windows dynamic disk (LDM)", all.join(", "))),
    }
    first_of(&mut found);
    (!found.is_empty()).then(|| format!("{}: straddle cannot read its list of partitions", found.join(", ")))
}

fn in_layer(layer: &Layer) -> Option<&'static str> {
    match layer.kind {
        kind if kind.is_foreign_table() => Some(kind.name()),
        _ => layer.children.iter().find_map(in_layer),
    }
}

/// `beside` is what the target holds besides, and `unsure` why its sectors are in doubt.
pub(crate) fn all(
    target: &Target,
    stack: &Stack,
    beside: &[Beside],
    examiner: &Examiner,
    unsure: Option<String>,
) -> Recognised {
    match recognised(target, stack, beside, examiner) {
        Recognised::Known => {
            let unread = || target.unread.as_ref().map(|why| format!("it cannot be read: {why}"));
            let why = unsure.or_else(unread).or_else(|| not_read(target, stack));
            why.map_or(Recognised::Known, Recognised::Part)
        }
        other => other,
    }
}

fn recognised(target: &Target, stack: &Stack, beside: &[Beside], examiner: &Examiner) -> Recognised {
    match (target.kind, &stack.kind) {
        // The kernel lists a loop device's partitions only if asked.
        (DeviceKind::Loop, TableKind::Kernel) if target.medium.is_none() && stack.partitions.is_empty() => {
            let why = "it cannot be read, and the kernel lists no partitions of this loop device";
            Recognised::Nothing(why.to_owned())
        }
        (_, TableKind::Kernel) if target.medium.is_none() => Recognised::Known,
        (_, TableKind::Content(content)) if content.is_array_member() => {
            match in_use::arrays(target, examiner, *content).as_slice() {
                [] => member::recognised(target, stack, *content),
                arrays => member::of_running(stack, arrays, &examiner.options().alongside),
            }
        }
        (_, TableKind::Content(content)) if !in_use::is_content(target, examiner) => {
            member::rival(target, stack, *content).map_or(Recognised::Known, Recognised::Nothing)
        }
        (_, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr)
            if !in_use::is_in_partitions(target, examiner) =>
        {
            member::beside_table(stack, beside).map_or(Recognised::Known, Recognised::Nothing)
        }
        (_, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr | TableKind::Content(_)) => {
            Recognised::Known
        }
        (_, TableKind::Foreign(name)) if stack.partitions.is_empty() => Recognised::Nothing(format!(
            "it has a partition table of type {name}, which straddle cannot read"
        )),
        (_, TableKind::Kernel | TableKind::None) if stack.layer.is_none() && stack.partitions.is_empty() => {
            match is_blank(target) {
                Ok(true) => Recognised::Blank,
                Ok(false) => Recognised::Nothing(unrecognised(target).to_owned()),
                Err(why) => Recognised::Nothing(why),
            }
        }
        (_, TableKind::Foreign(_) | TableKind::Kernel | TableKind::None) => Recognised::Known,
    }
}

fn unrecognised(target: &Target) -> &'static str {
    match target.medium.as_deref().map(|medium| medium.len()) {
        Some(len) if !len.is_multiple_of(KERNEL_SECTOR.bytes()) => {
            "its contents are not recognised, and its size is not a multiple of 512 bytes: it is probably \
             not a disk image"
        }
        _ => "its contents are not recognised",
    }
}

const OF_STRADDLE: &[u8] = b"\"straddle\": \"";

fn is_blank(target: &Target) -> Result<bool, String> {
    let Some(medium) = &target.medium else {
        return Err("it cannot be read".to_owned());
    };
    let mut head = [0; 64];
    if medium.read_at(ByteOffset::ZERO, &mut head).is_ok()
        && head.starts_with(b"{")
        && head.windows(OF_STRADDLE.len()).any(|part| part == OF_STRADDLE)
    {
        return Err("it is a file that straddle wrote (a plan, a backup or an audit), not a disk".to_owned());
    }
    straddle_layout::is_blank(medium.as_ref()).map_err(|error| {
        format!("its contents are not recognised, and part of it is unreadable: {}", with_causes(&error))
    })
}
