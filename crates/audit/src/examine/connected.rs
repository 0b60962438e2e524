//! Connecting an image that is not raw as a block device: partitioning tools would overwrite its format.

use std::path::Path;

use crate::{Finding, Findings, Fix};
use straddle_device::Target;
use straddle_device::shown::{is_hidden, quote_path};

pub(crate) const NODE: &str = "/dev/nbd0";

/// Has the commands that name [`NODE`] connect the image at `local` there first, and disconnect it in any case. If it
/// cannot be written through the node, removes them and returns the command that converts it instead.
pub(crate) fn prepare(target: &mut Target, local: &str, findings: &mut Findings) -> Option<String> {
    let container = target.container.as_ref()?;
    let name = target.through.as_ref().map_or(local, |through| &through.unpacked);
    let names_node = |fix: &Fix| fix.commands.iter().any(|command| command.line.contains(NODE));
    if !findings.iter().flat_map(Finding::fixes).any(names_node) {
        return None;
    }
    if name.contains(is_hidden) {
        findings.withhold_commands(names_node);
        return None;
    }
    let (format, file) = (container.format.qemu_name(), quote_path(Path::new(name)));
    if container.is_written_once() {
        findings.withhold_commands(names_node);
        let made = quote_path(Path::new(&format!("{name}.qcow2")));
        let line = format!("qemu-img convert -f {format} -O qcow2 {file} {made}");
        target.remarks.push(format!(
            "straddle cannot write to a {} image of type {}; convert it, then check the new image to get the \
             commands: {line}",
            container.format, container.variant
        ));
        return Some(line);
    }
    let connect = format!("qemu-nbd -c {NODE} -f {format} {file}");
    findings
        .join_commands(names_node, |lines| format!("{connect} && (trap 'qemu-nbd -d {NODE}' EXIT; {lines})"));
    target.remarks.push(format!(
        "the commands below connect the image as {NODE} (this needs root and the kernel module nbd), and \
         disconnect it afterwards; if {NODE} is in use, they do nothing"
    ));
    None
}
