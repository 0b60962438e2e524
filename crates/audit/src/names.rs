//! The names of layers in messages.

use straddle_layout::layer::{Facts, Layer, Md};

/// A layer's name in a path.
pub fn called(layer: &Layer) -> String {
    let what = match &layer.facts {
        Facts::Md(md) => format!("md {}", level_name(md)),
        Facts::Pv(_) => "PV".to_owned(),
        Facts::Luks(luks) => format!("LUKS{}", luks.version),
        Facts::Table(_) => "partition table".to_owned(),
        _ => layer.kind.to_string(),
    };
    // Names come from the disk and are printed to terminals, so they are made printable.
    let name = straddle_device::shown::printable(&layer.name);
    if name.is_empty() { what } else { format!("{what} {name}") }
}

/// The array's level, such as `raid5` or `linear`.
pub(crate) fn level_name(md: &Md) -> String {
    match md.level {
        -1 => "linear".to_owned(),
        -4 => "multipath".to_owned(),
        -5 => "faulty".to_owned(),
        level => format!("raid{level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_names() {
        let level = |level| level_name(&Md { level, ..Md::default() });
        assert_eq!(level(5), "raid5");
        assert_eq!(level(-1), "linear");
    }
}
