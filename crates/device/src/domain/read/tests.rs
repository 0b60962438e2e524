use crate::image::Format;
use proptest::prelude::*;

use super::*;
use crate::domain::{Disk, Storage};
use crate::topology::Sectors;

/// A domain as `virsh dumpxml` prints it, abridged.
const DOMAIN: &str = "\
<domain type='kvm' id='3' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>web &amp; mail</name>
  <metadata><name>not this one</name><disk/></metadata>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' discard='unmap'/>
      <source file='/srv/a &amp; b/web.qcow2' index='2'/>
      <backingStore type='file' index='3'>
        <format type='qcow2'/>
        <source file='/srv/middle.qcow2'/>
        <backingStore type='file' index='4'>
          <format type='raw'/>
          <source file='/srv/base.img'/>
          <backingStore/>
        </backingStore>
      </backingStore>
      <blockio logical_block_size='512' physical_block_size='4096'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw'/>
      <source dev='/dev/vg/web'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
  </devices>
</domain>
";

fn disks(text: &str) -> Vec<Disk> {
    let xml = format!("<domain type='kvm'><name>d</name><devices>{text}</devices></domain>");
    Domain::parse(&xml).unwrap().disks
}

fn only(text: &str) -> Disk {
    let mut disks = disks(text);
    assert_eq!(disks.len(), 1, "{text}");
    disks.remove(0)
}

fn wrong(xml: &str) -> String {
    Domain::parse(xml).unwrap_err().to_string()
}

fn shown(logical: u64, physical: u64) -> Option<Sectors> {
    let logical = straddle_units::BlockSize::new(logical).unwrap();
    Some(Sectors { logical, physical: straddle_units::ByteCount::new(physical) })
}

#[test]
fn a_domain_is_read() {
    let domain = Domain::parse(DOMAIN).unwrap();
    assert_eq!((domain.name.as_str(), domain.is_running), ("web & mail", true));
    let [vda, vdb] = domain.disks.as_slice() else { panic!("{:?}", domain.disks) };
    let qcow2 = Storage::Path { path: "/srv/a & b/web.qcow2".into(), format: Format::Qcow2 };
    assert_eq!((vda.name.as_str(), &vda.storage, vda.shown), ("vda", &qcow2, shown(512, 4096)));
    assert_eq!(vda.backing, ["/srv/middle.qcow2", "/srv/base.img"].map(std::path::PathBuf::from));
    let raw = Storage::Path { path: "/dev/vg/web".into(), format: Format::Raw };
    assert_eq!((vdb.name.as_str(), &vdb.storage, vdb.shown), ("vdb", &raw, shown(512, 512)));
}

#[test]
fn a_format_is_stated_or_raw() {
    let with =
        |driver: &str| only(&format!("<disk>{driver}<source file='/a'/><target dev='vda'/></disk>")).storage;
    let path = |format| Storage::Path { path: "/a".into(), format };
    for (driver, format) in [
        ("", Format::Raw),
        ("<driver name='qemu'/>", Format::Raw),
        ("<driver type='raw'/>", Format::Raw),
        ("<driver type='qcow2'/>", Format::Qcow2),
        ("<driver type='vpc'/>", Format::Vhd),
        ("<driver type='vmdk'/>", Format::Vmdk),
    ] {
        assert_eq!(with(driver), path(format), "{driver}");
    }
    assert!(matches!(with("<driver type='bochs'/>"), Storage::OutOfReach(why) if why.contains("bochs")));
}

#[test]
fn what_is_shown_depends_on_the_device_and_the_hypervisor() {
    let disk = |device: &str, blockio: &str| {
        format!("<disk type='block' device='{device}'><source dev='/a'/>{blockio}<target dev='sda'/></disk>")
    };
    let of = |kind: &str, text: &str| {
        let xml = format!("<domain type='{kind}'><name>d</name><devices>{text}</devices></domain>");
        Domain::parse(&xml).map(|domain| domain.disks[0].shown).map_err(|error| error.what)
    };
    assert_eq!(of("qemu", &disk("disk", "")), Ok(shown(512, 512)));
    assert_eq!(of("xen", &disk("disk", "")), Ok(None));
    assert_eq!(of("kvm", &disk("lun", "")), Ok(None));
    let both = "<blockio logical_block_size='4096' physical_block_size='16384' discard_granularity='4096'/>";
    assert_eq!(of("xen", &disk("disk", both)), Ok(shown(4096, 16384)));
    assert_eq!(of("kvm", &disk("disk", "<blockio physical_block_size='4096'/>")), Ok(shown(512, 4096)));
    assert_eq!(of("kvm", &disk("disk", "<blockio physical_block_size='0'/>")), Ok(shown(512, 512)));
    for (blockio, what) in [
        ("logical_block_size='4096'", "larger than the physical one"),
        ("logical_block_size='1000'", "logical_block_size"),
        ("physical_block_size='3000'", "power of two"),
        ("physical_block_size='4 KiB'", "not a size"),
        ("physical_block_size='-1'", "not a size"),
        ("physical_block_size='99999999999999999999'", "not a size"),
    ] {
        let error = of("kvm", &disk("disk", &format!("<blockio {blockio}/>"))).unwrap_err();
        assert!(error.contains(what), "{blockio}: {error}");
    }
}

#[test]
fn what_cannot_be_read_has_a_reason() {
    let storage = |text: &str| only(&format!("<disk {text}<target dev='vda'/></disk>")).storage;
    let volume = Storage::Volume { pool: "p".into(), volume: "v".into(), format: Format::Raw };
    assert_eq!(storage("type='volume'><source pool='p' volume='v'/>"), volume);
    for (text, what) in [
        ("type='network'><source protocol='rbd' name='p/i'><host name='mon'/></source>", "rbd p/i on mon"),
        ("type='nvme'><source type='pci' namespace='1'/>", "NVMe"),
        ("type='dir'><source dir='/x'/>", "directory"),
        ("type='vhostuser'><source type='unix' path='/x'/>", "another program"),
        ("type='new'><source x='/x'/>", "'new'"),
        ("type='file'><source file='x.img'/>", "not absolute"),
        ("type='file'><source file='/x'/><encryption format='luks'/>", "encrypted"),
        ("type='file'><source file='/x'><encryption format='luks'/></source>", "encrypted"),
        ("type='file'><source file='/x'><slices/></source>", "slice"),
    ] {
        assert!(matches!(storage(text), Storage::OutOfReach(why) if why.contains(what)), "{text}");
    }
    for text in [
        "type='file' device='cdrom'><source file='/x.iso'/>",
        "type='file' device='floppy'>",
        "type='file' device='disk'>",
        "type='file'><source/>",
        "type='block'><source dev=''/>",
    ] {
        assert!(matches!(storage(text), Storage::NoDisk(_)), "{text}");
    }
}

#[test]
fn an_error_has_its_line() {
    assert_eq!(wrong(""), "line 1 (byte 0): the document is empty");
    assert!(wrong("QFI\u{fb}").contains("line 1 (byte 0): not an XML document"));
    assert!(wrong("<network><name>n</name></network>").contains("<network>, but only <domain>"));
    assert!(wrong("<domain>\n</domain>").contains("no <name>"));
    let cut = &DOMAIN[..DOMAIN.find("</devices>").unwrap()];
    assert!(
        wrong(cut).starts_with("line 26 ") && wrong(cut).contains("truncated, because </devices> is missing"),
        "{}",
        wrong(cut)
    );
    let text =
        wrong("<domain>\n<name>a</name>\n<devices>\n<disk>\n<source x='1' x='2'/></disk></devices></domain>");
    assert!(text.starts_with("line 5 "), "{text}");
    let text = wrong("<domain>\n<name>a</name>\n<devices>\n<disk/></devices></domain>");
    assert_eq!(text, "line 4 (byte 34): a <disk> element has no <target dev='...'>");
    assert!(wrong("<domain><name>a</nam></domain>").starts_with("line 1 "));
}

#[test]
fn what_is_made_to_hurt_is_refused() {
    let bomb =
        "<!DOCTYPE domain [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>\n<domain><name>&b;</name></domain>";
    assert!(wrong(bomb).contains("<!DOCTYPE>"), "{}", wrong(bomb));
    assert!(wrong("<domain><name>&b;</name></domain>").contains("&b; is not defined"));
    let xxe = "<domain><name>a</name><devices><disk><source file='&x;'/></disk></devices></domain>";
    assert!(wrong(xxe).starts_with("line 1 "));
    let deep = "<a>".repeat(1_000_000);
    assert!(wrong(&format!("<domain>{deep}")).contains("more than 64 levels deep"));
    let long = " ".repeat(usize::try_from(MAX_DOCUMENT).unwrap() + 1);
    assert!(wrong(&long).contains("longer than 4194304 bytes"));
    let many = "<a/>".repeat(70_000);
    assert!(wrong(&format!("<domain><devices>{many}")).contains("more than 65536 elements"));
}

proptest! {
    #[test]
    fn no_document_panics(text in "(\\PC|[<>&;'\"/!\\[\\]\n]){0,80}", at in 0_usize..1000) {
        let _ = Domain::parse(&text);
        let at = (0..=at.min(DOMAIN.len())).rev().find(|at| DOMAIN.is_char_boundary(*at)).unwrap();
        let mut damaged = DOMAIN.to_owned();
        damaged.insert_str(at, &text);
        let _ = Domain::parse(&damaged);
        let _ = Domain::parse(&DOMAIN[..at]);
    }
}
