//! `check --domain`: the disks of libvirt's domains, as their guests are shown them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, Guest, PATH, STRADDLE, list, number, output, present, run, text, valid, word, write_table};

/// A disk as libvirt describes it; `more` is between its driver and its source.
fn disk(path: &Path, format: &str, more: &str, name: &str) -> String {
    let path = path.display();
    format!(
        "    <disk type='file' device='disk'>\n      <driver name='qemu' type='{format}' cache='none'/>\n      \
         <source file='{path}'/>\n      {more}\n      <target dev='{name}' bus='virtio'/>\n    </disk>\n"
    )
}

/// A domain with these attributes, as `virsh dumpxml` prints it.
fn domain(attributes: &str, name: &str, disks: &str) -> String {
    format!(
        "<domain type='kvm'{attributes}>\n  <name>{name}</name>\n  <memory unit='KiB'>1048576</memory>\n  <os>\n    \
         <type arch='x86_64' machine='q35'>hvm</type>\n  </os>\n  <devices>\n{disks}  </devices>\n</domain>\n"
    )
}

const BLOCKIO: &str = "<blockio logical_block_size='512' physical_block_size='4096'/>";

/// A raw image with one partition at this sector.
fn image(dir: &Dir, name: &str, start: u64) -> std::path::PathBuf {
    let image = dir.image(name, 64 << 20);
    write_table(&image, 512, &format!("label: dos\nstart={start}, size=40000, type=83\n"));
    image
}

/// Writes `xml` to a file, and checks it with `words`. Returns the exit status, stdout and stderr.
fn checked(dir: &Dir, xml: &str, words: &[&str]) -> (i32, String, String) {
    let file = dir.join("domain.xml");
    fs::write(&file, xml).unwrap();
    let out = output(Command::new(STRADDLE).args(["check", "--domain"]).arg(file).args(words), "");
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

/// The targets of `check --json`, and the exit status.
fn targets(dir: &Dir, xml: &str, words: &[&str]) -> (i32, Vec<Value>) {
    let (status, out, err) = checked(dir, xml, &[&["--json"], words].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    valid(&report, "check");
    (status, list(&report, "targets").to_vec())
}

fn only(dir: &Dir, xml: &str, words: &[&str]) -> (i32, Value) {
    let (status, mut targets) = targets(dir, xml, words);
    assert_eq!(targets.len(), 1, "{targets:?}");
    (status, targets.remove(0))
}

fn codes(target: &Value) -> Vec<String> {
    list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
}

fn has(target: &Value, code: &str) -> bool {
    codes(target).iter().any(|found| found == code)
}

#[test]
fn every_disk_of_a_domain_is_named() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let dir = Dir::new("domains");
    let raw = image(&dir, "old.img", 63);
    let qcow2 = dir.join("web & co.qcow2");
    image(&dir, "new.img", 2048);
    let convert = ["convert", "-O", "qcow2", "new.img", "web & co.qcow2"];
    run(Command::new("qemu-img").args(convert).current_dir(dir.path()), "");
    let escaped = dir.join("web &amp; co.qcow2");
    let disks = [
        disk(&escaped, "qcow2", BLOCKIO, "vda"),
        disk(&raw, "raw", "", "vdb"),
        "<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>\n".to_owned(),
        "<disk type='network' device='disk'><source protocol='rbd' name='pool/web'><host name='mon1'/></source>\
         <target dev='vdc' bus='virtio'/></disk>\n"
            .to_owned(),
        "<disk type='volume' device='disk'><source pool='no-such-pool' volume='v'/><target dev='vdd' bus='virtio'/>\
         </disk>\n"
            .to_owned(),
    ];
    let xml = domain("", "web", &disks.concat());
    let (status, found) = targets(&dir, &xml, &[]);
    let [vda, vdb, vdc, vdd] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(status, 3);
    assert_eq!(
        (word(vda, "target"), word(vda, "status")),
        (qcow2.display().to_string(), "ok".to_owned()),
        "{vda}"
    );
    assert_eq!(word(&vda["container"], "format"), "qcow2");
    let guest = &vda["device"]["guest"];
    assert_eq!([word(guest, "domain"), word(guest, "disk")], ["web", "vda"]);
    assert_eq!(
        (number(&guest["shown"], "logical_sector_bytes"), number(&guest["shown"], "physical_sector_bytes")),
        (512, 4096)
    );
    assert!(has(vdb, "S001") && word(vdb, "status") == "error", "{vdb}");
    assert_eq!(number(&vdb["device"]["guest"]["shown"], "physical_sector_bytes"), 512);
    for (target, name, why) in
        [(vdc, "domain:web/vdc", "rbd pool/web on mon1"), (vdd, "domain:web/vdd", "no-such-pool")]
    {
        assert_eq!((word(target, "target").as_str(), word(target, "status").as_str()), (name, "not_judged"));
        assert!(word(target, "reason").contains(why), "{target}");
    }
    let (status, out, err) = checked(&dir, &xml, &[]);
    assert_eq!(status, 3);
    let out = tools::flat(&out);
    assert!(out.contains("disk vda of the domain web, 64 MiB") && out.contains("shown as 512e"), "{out}");
    assert!(out.contains("4 targets: 1 with errors, 2 not judged, 1 aligned"), "{out}");
    assert!(err.contains("domain:web/sda: skipped: a CD-ROM drive"), "{err}");
    let (status, _, _) = checked(&dir, &xml, &["--allow-unknown"]);
    assert_eq!(status, 1, "what is not here is accepted, what is misaligned is not");
    for format in ["sarif", "junit", "github", "csv", "prometheus"] {
        let (status, out, _) = checked(&dir, &xml, &["--output-format", format]);
        assert_eq!(status, 3, "{format}");
        for name in ["old.img", "domain:web/vdc"] {
            assert!(out.contains(name) || out.contains(&name.replace(':', "%3A")), "{format}: {name}: {out}");
        }
    }
}

#[test]
fn a_format_is_that_of_the_description() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let dir = Dir::new("domains");
    // What a guest can write to its raw disk: an image's header that names a file of the host.
    fs::write(dir.join("secret"), vec![7; 1 << 20]).unwrap();
    let create = ["create", "-q", "-f", "qcow2", "-b", "secret", "-F", "raw", "disk.img"];
    run(Command::new("qemu-img").args(create).current_dir(dir.path()), "");
    let image = dir.join("disk.img");
    let (status, raw) = only(&dir, &domain("", "web", &disk(&image, "raw", "", "vda")), &[]);
    assert_eq!(
        (status, word(&raw, "status").as_str(), raw.get("container")),
        (3, "not_judged", None),
        "{raw}"
    );
    let (_, qcow2) = only(&dir, &domain("", "web", &disk(&image, "qcow2", "", "vda")), &[]);
    let why = word(&qcow2, "error");
    assert!(why.contains("secret") && why.contains("--domain") && why.contains("--allow-backing"), "{why}");
    // The description of a running domain names the file below.
    let below = format!(
        "<backingStore type='file'><format type='raw'/><source file='{}'/></backingStore>",
        dir.join("secret").display()
    );
    let (_, chain) =
        only(&dir, &domain(" id='1'", "web", &disk(&image, "qcow2", &below, "vda")), &["--allow-unknown"]);
    assert_eq!(word(&chain["container"], "format"), "qcow2", "{chain}");
}

#[test]
fn a_table_counts_in_the_logical_sectors_of_the_guest() {
    if !present(&["sfdisk", "fdisk"]) {
        return;
    }
    let dir = Dir::new("domains");
    let image = dir.image("disk.img", 64 << 20);
    write_table(&image, 4096, "label: gpt\nstart=256, size=8000\n");
    let native = "<blockio logical_block_size='4096' physical_block_size='4096'/>";
    let (status, target) = only(&dir, &domain("", "web", &disk(&image, "raw", native, "vda")), &[]);
    assert_eq!((status, codes(&target)), (0, Vec::new()), "{target}");
    assert_eq!(number(&target["device"]["logical_sector_bytes"], "value"), 4096);
    // The guest no longer finds its table once it is shown others.
    let (status, target) = only(&dir, &domain("", "web", &disk(&image, "raw", BLOCKIO, "vda")), &[]);
    assert!(status == 1 && has(&target, "S030"), "{target}");
}

#[test]
fn what_is_shown_is_compared_with_the_storage() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("domains");
    let image = image(&dir, "disk.img", 2048);
    for (shown, storage, severity, status) in [
        ("", "512e", Some("advice"), 0),
        ("", "4kn", Some("warning"), 1),
        ("", "512n", None, 0),
        (BLOCKIO, "512e", None, 0),
        (BLOCKIO, "4kn", None, 0),
        (BLOCKIO, "logical=512,physical=16384", Some("advice"), 0),
    ] {
        let xml = domain("", "web", &disk(&image, "raw", shown, "vda"));
        let (code, target) = only(&dir, &xml, &["--assume", storage]);
        let finding = list(&target, "findings").iter().find(|finding| word(finding, "code") == "S027");
        assert_eq!(
            finding.map(|it| word(it, "severity")).as_deref(),
            severity,
            "{shown} {storage}: {target}"
        );
        assert_eq!(code, status, "{shown} {storage}: {target}");
        let Some(finding) = finding else { continue };
        // With the element that the fix names, nothing is left to find.
        let fix = word(&finding["fix"], "summary");
        let element = &fix[fix.find("<blockio").unwrap()..=fix.find("/>").unwrap() + 1];
        let xml = domain("", "web", &disk(&image, "raw", element, "vda"));
        assert_eq!(codes(&only(&dir, &xml, &["--assume", storage]).1), Vec::<String>::new(), "{element}");
        if present(&["virt-xml-validate"]) {
            let file = dir.join("domain.xml");
            run(Command::new("virt-xml-validate").arg(&file).arg("domain"), "");
        }
    }
}

#[test]
fn no_command_changes_the_disk_of_a_running_guest() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("domains");
    let image = image(&dir, "disk.img", 63);
    let of =
        |attributes: &str| checked(&dir, &domain(attributes, "web", &disk(&image, "raw", "", "vda")), &[]).1;
    let shut_off = of("");
    assert!(shut_off.contains("straddle realign") && shut_off.contains("--format raw"), "{shut_off}");
    assert!(tools::flat(&shut_off).contains("make sure that the domain web is shut off"), "{shut_off}");
    let running = of(" id='7'");
    assert!(running.contains("S001") && !running.contains("straddle realign"), "{running}");
    assert!(tools::flat(&running).contains("the domain web is running"), "{running}");
    // The commands read the table as the guest does, whatever the storage counts in.
    let large = "<blockio logical_block_size='512' physical_block_size='16384'/>";
    let xml = domain("", "web", &disk(&image, "raw", large, "vda"));
    let storage = ["--assume", "logical=4096,physical=16384"];
    let (_, out, _) = checked(&dir, &xml, &storage);
    let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| line.starts_with("straddle ")).collect();
    let [realign, apply] = lines.as_slice() else { panic!("{out}") };
    assert!(realign.contains("--assume logical=512,physical=16384 --format raw"), "{realign}");
    tools::shell(&tools::with_program(&format!("{realign}\n{apply}")), dir.path());
    let (status, target) = only(&dir, &xml, &storage);
    assert_eq!((status, codes(&target)), (0, Vec::new()), "{target}");
}

#[test]
fn a_wrong_description_has_its_line() {
    let dir = Dir::new("domains");
    let whole = domain("", "web", &disk(Path::new("/x.img"), "raw", "", "vda"));
    for (xml, what) in [
        (whole[..whole.find("</disk>").unwrap()].to_owned(), "line 13 (byte "),
        ("<!DOCTYPE a [<!ENTITY a 'b'>]><domain/>".to_owned(), "line 1 (byte 0): a document type"),
        (whole.replace("<target dev='vda' bus='virtio'/>", ""), "line 8 (byte "),
        ("\u{7f}ELF\u{1}".to_owned(), "line 1 (byte 0)"),
        (
            format!("<domain><name>\u{1b}[31m</name><devices>{}", "<a>".repeat(100_000)),
            "nested more than 64 levels deep",
        ),
    ] {
        let (status, target) = only(&dir, &xml, &[]);
        assert_eq!((status, word(&target, "status").as_str()), (3, "failed"), "{target}");
        assert!(word(&target, "error").contains(what), "{target}");
        let (_, out, err) = checked(&dir, &xml, &[]);
        assert!(!out.contains('\u{1b}') && err.contains("domain.xml"), "{out}{err}");
    }
    // One gibibyte is not read to its end.
    let sparse = dir.image("large.xml", 1 << 30);
    let out = output(Command::new(STRADDLE).args(["check", "--domain"]).arg(sparse), "");
    assert!(out.status.code() == Some(3) && text(&out.stderr).contains("longer than 4194304 bytes"));
    for words in [
        ["--domain", "x.xml", "disk.img"],
        ["--domain", "x.xml", "--all"],
        ["--domain=x.xml", "--format", "raw"],
    ] {
        let out = output(Command::new(STRADDLE).arg("check").args(words), "");
        assert_eq!(out.status.code(), Some(2), "{words:?}");
    }
}

/// The definition of a host for libvirt's test driver, with these domains and a pool.
fn node(dir: &Dir, domains: &[String]) -> String {
    let pool = dir.path().display();
    let domains = domains.concat().replace("<domain type='kvm'", "<domain type='test'");
    fs::write(
        dir.join("node.xml"),
        format!(
            "<node>\n{domains}<pool type='dir'>\n  <name>images</name>\n  <target><path>{pool}</path></target>\n  \
             <volume><name>pool.img</name><capacity>67108864</capacity><target><path>{pool}/pool.img</path></target>\
             </volume>\n</pool>\n</node>\n"
        ),
    )
    .unwrap();
    format!("test://{}", dir.join("node.xml").display())
}

#[test]
fn virsh_finds_domains_and_volumes() {
    if !present(&["sfdisk", "virsh"]) {
        return;
    }
    let dir = Dir::new("domains");
    let (old, new) = (image(&dir, "old.img", 63), image(&dir, "new.img", 2048));
    image(&dir, "pool.img", 63);
    let volume = "<disk type='volume' device='disk'><driver name='qemu' type='raw'/><source pool='images' \
                  volume='pool.img'/><target dev='vdb' bus='virtio'/></disk>";
    let web = domain("", "web", &(disk(&old, "raw", BLOCKIO, "vda") + volume));
    let uri = node(&dir, &[web, domain("", "-mail server", &disk(&new, "raw", BLOCKIO, "vda"))]);
    let checked = |words: &[&str]| {
        let mut command = Command::new(STRADDLE);
        command.args(["check", "--json"]).args(words).env("LIBVIRT_DEFAULT_URI", &uri);
        let out = output(&mut command, "");
        let report: Value =
            serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", tools::transcript(&out)));
        valid(&report, "check");
        (out.status.code().unwrap(), list(&report, "targets").to_vec())
    };
    let rows = |targets: &[Value]| -> Vec<[String; 4]> {
        let row = |target: &Value| {
            let (path, guest) = (word(target, "target"), &target["device"]["guest"]);
            let file = Path::new(&path).file_name().unwrap().to_str().unwrap().to_owned();
            [word(guest, "domain"), word(guest, "disk"), file, word(target, "status")]
        };
        let mut rows: Vec<_> = targets.iter().map(row).collect();
        rows.sort();
        rows
    };
    let mail = ["-mail server", "vda", "new.img", "ok"].map(str::to_owned);
    let web = [["web", "vda", "old.img", "error"], ["web", "vdb", "pool.img", "error"]]
        .map(|row| row.map(str::to_owned));
    let (status, targets) = checked(&["--domain", "all"]);
    assert_eq!((status, rows(&targets)), (1, [&[mail.clone()][..], &web].concat()));
    let (status, targets) = checked(&["--domain=-mail server"]);
    assert_eq!((status, rows(&targets)), (0, vec![mail.clone()]));
    let (status, targets) = checked(&["--domain", "web", "--domain=-mail server"]);
    assert_eq!((status, rows(&targets)), (1, [&[mail][..], &web].concat()));
    // The test driver starts its domains, and virsh says so.
    assert!(targets.iter().all(|target| target["device"]["guest"]["is_running"] == true), "{targets:?}");
    let (status, targets) = checked(&["--domain", "nobody"]);
    assert_eq!((status, word(&targets[0], "target").as_str()), (3, "domain:nobody"));
    assert!(word(&targets[0], "error").contains("nobody"), "{targets:?}");
    // What virsh prints is what is read from a file.
    let mut dump = Command::new("virsh");
    let xml =
        run(dump.args(["--quiet", "dumpxml", "web"]).env("LIBVIRT_DEFAULT_URI", &uri).env("PATH", PATH), "");
    let mut command = Command::new(STRADDLE);
    fs::write(dir.join("web.xml"), xml).unwrap();
    command.args(["check", "--json", "--domain"]).arg(dir.join("web.xml")).env("LIBVIRT_DEFAULT_URI", &uri);
    let report: Value = serde_json::from_slice(&output(&mut command, "").stdout).unwrap();
    assert_eq!(rows(list(&report, "targets")), web);
}

#[test]
fn virsh_of_another_host_is_refused() {
    if !present(&["virsh"]) {
        return;
    }
    let uri = "qemu+ssh://nobody@host.invalid/system";
    let out =
        output(Command::new(STRADDLE).args(["check", "--domain", "all"]).env("LIBVIRT_DEFAULT_URI", uri), "");
    assert_eq!(out.status.code(), Some(3), "{}", tools::transcript(&out));
    assert!(text(&out.stderr).contains("another host (qemu+ssh://nobody@host.invalid/system)"));
}

#[test]
fn the_storage_below_is_that_of_the_kernel() {
    if !present(&["linux.uml", "sfdisk", "mkfs.ext4", "qemu-img"]) {
        return;
    }
    let guest = Guest::run("domains.sh", "1G");
    let target = |name: &str| guest.targets(name).remove(0);
    let offset = |name: &str| guest.text(&format!("{name}.offset")).trim().parse::<u64>().unwrap();
    // A start that is aligned in the image is off the disk's sectors by what the file system is.
    let found = target("misaligned");
    assert!(offset("misaligned") > 0 && has(&found, "S001") && has(&found, "S023"), "{found}");
    assert_eq!(number(&found["device"]["alignment_offset_bytes"], "value"), offset("misaligned"));
    for name in ["aligned", "disk"] {
        let found = target(name);
        assert_eq!((offset(name), codes(&found)), (0, vec!["S027".to_owned()]), "{name}: {found}");
        assert_eq!(word(&found, "status"), "advice");
        let guest = &found["device"]["guest"];
        assert_eq!(number(&guest["storage"], "physical_sector_bytes"), 4096, "{name}: {found}");
    }
    let native = target("native");
    assert_eq!(word(&native, "status"), "warning", "{native}");
    assert!(has(&native, "S027") && !has(&native, "S030"), "{native}");
    assert_eq!(number(&native["table"], "sector_bytes"), 512, "{native}");
    // Its file system is the contents of a disk that begins where the partition does.
    let partition = target("partition");
    assert_eq!(number(&partition["device"]["alignment_offset_bytes"], "value"), offset("partition"));
    assert!(offset("partition") > 0 && has(&partition, "S023"), "{partition}");
    assert_eq!(
        (word(&partition, "status").as_str(), word(&partition["layer"], "kind").as_str()),
        ("error", "ext4")
    );
    assert!(!partition.to_string().contains("\"commands\":[{"), "{partition}");
    let image = target("image");
    assert_eq!(
        (word(&image["container"], "format").as_str(), codes(&image)),
        ("qcow2", vec!["S027".to_owned()])
    );
    assert_eq!(number(&image["device"], "size_bytes"), 32 << 20);
}
