//! Connecting an image that is not raw as a block device: partitioning tools would overwrite its format.

use std::path::Path;

use straddle_audit::{Findings, Fix};
use straddle_device::image::Container;
use straddle_device::shown::{is_hidden, quote_path};

/// The device node that printed commands name for such an image.
pub(crate) const NODE: &str = "/dev/nbd0";

/// Returns a remark and the command that connects the image to [`NODE`], if any command names [`NODE`]. If
/// the image cannot be written through the node, removes these commands and returns how to convert the image
/// instead.
pub(crate) fn prepare(
    name: &str,
    container: &Container,
    findings: &mut Findings,
) -> Option<(String, String)> {
    let names_node = |fix: &Fix| fix.commands.iter().any(|command| command.line.contains(NODE));
    let all = findings.iter().flat_map(|finding| finding.fix.iter().chain(&finding.instead));
    if !all.into_iter().any(names_node) {
        return None;
    }
    if name.contains(is_hidden) {
        findings.withhold_commands(names_node);
        return None;
    }
    let (format, file) = (container.format.qemu_name(), quote_path(Path::new(name)));
    if container.is_written_once() {
        findings.withhold_commands(names_node);
        let remark = format!(
            "a {} image of type {} cannot be written: for commands, convert it, and check what comes of it",
            container.format, container.variant
        );
        let made = quote_path(Path::new(&format!("{name}.qcow2")));
        return Some((remark, format!("qemu-img convert -f {format} -O qcow2 {file} {made}")));
    }
    let remark = format!("the commands below name {NODE}: connect the image there first (kernel module nbd)");
    Some((remark, format!("qemu-nbd -c {NODE} -f {format} {file}")))
}
