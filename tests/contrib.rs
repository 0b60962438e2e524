//! The files in `contrib`: their commands are run as they stand, on a right and a wrong image.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tools::{Dir, STRADDLE, output, present, run, transcript};

pub(crate) fn contrib(name: &str) -> PathBuf {
    tools::root().join("contrib").join(name)
}

/// A `sudo` for where none is installed.
const SUDO: &str = "printf '#!/bin/sh\\nexec \"$@\"\\n' > sudo; chmod +x sudo; PATH=$PWD:$PATH";

/// A folder with `build/disk.img` whose partitioning has failed.
fn unpartitioned(is_blank: bool) -> Dir {
    let dir = Dir::new("contrib");
    fs::create_dir(dir.join("build")).unwrap();
    let image = dir.image("build/disk.img", 64 << 20);
    if !is_blank {
        tools::write_table(&image, 512, "label: gpt\n");
    }
    dir
}

/// A folder with `build/`, in which is no image.
fn unbuilt() -> Dir {
    let dir = Dir::new("contrib");
    fs::create_dir(dir.join("build")).unwrap();
    dir
}

/// Asserts that a recipe fails where nothing is judged.
fn fails_on_nothing(line: &str) {
    for dir in [unpartitioned(true), unpartitioned(false), unbuilt()] {
        let out = sh(line, dir.path());
        assert!(!out.status.success(), "{line}: {}", transcript(&out));
    }
}

/// A folder with `build/disk.img`.
pub(crate) fn built(is_right: bool) -> Dir {
    let dir = Dir::new("contrib");
    fs::create_dir(dir.join("build")).unwrap();
    let image = dir.image("build/disk.img", 64 << 20);
    let start = if is_right { 2048 } else { 63 };
    tools::write_table(&image, 512, &format!("label: gpt\nfirst-lba: 34\nstart={start}, size=40000\n"));
    dir
}

/// Runs `line` where `straddle` is this build.
pub(crate) fn sh(line: &str, dir: &Path) -> Output {
    let folder = Path::new(STRADDLE).parent().unwrap().display();
    let line = format!("export PATH={folder}:$PATH; {line}");
    output(Command::new("bash").args(["-c", &line]).current_dir(dir), "")
}

/// The values of the pipeline's file that begin with `straddle`, by a YAML parser.
fn commands(file: &str) -> Vec<String> {
    let script = "import json, sys, yaml\n\
                  def texts(value):\n\
                  \x20   if isinstance(value, dict): value = list(value.values())\n\
                  \x20   if isinstance(value, list): return [text for one in value for text in texts(one)]\n\
                  \x20   return [value] if isinstance(value, str) else []\n\
                  print(json.dumps([text for text in texts(yaml.safe_load(open(sys.argv[1]))) if text.startswith('straddle ')]))";
    let out = run(Command::new("/usr/bin/python3").args(["-c", script]).arg(contrib(file)), "");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn pipelines_fail_on_a_wrong_image_only() {
    if !present(&["sfdisk", "python3"]) {
        return;
    }
    for file in ["github/audit.yml", "gitlab/audit.yml"] {
        let lines = commands(file);
        assert!(!lines.is_empty(), "{file}");
        for line in lines {
            for (is_right, status) in [(true, 0), (false, 1)] {
                let dir = built(is_right);
                let out = sh(&line, dir.path());
                assert_eq!(out.status.code(), Some(status), "{file}: {line}: {}", transcript(&out));
            }
            fails_on_nothing(&line);
        }
    }
    let ansible = commands("ansible/roles/straddle/tasks/main.yml");
    assert_eq!(ansible[0], "straddle check --json");
}

#[test]
fn pipelines_install_a_release() {
    if !present(&["python3", "curl"]) {
        return;
    }
    // The commands of both, and the version that they install.
    let script = "import json, sys, yaml\n\
                  github, gitlab = (yaml.safe_load(open(name)) for name in sys.argv[1:])\n\
                  step = next(step for step in github['jobs']['audit']['steps'] if step.get('name') == 'Install straddle')\n\
                  job = gitlab['alignment']\n\
                  print(json.dumps([github['env']['VERSION'], step['run'] + 'PATH=$(cat $GITHUB_PATH):$PATH',\n\
                  \x20   job['variables']['VERSION'], '\\n'.join(job['before_script'])]))";
    let files = ["github/audit.yml", "gitlab/audit.yml"].map(contrib);
    let out = run(Command::new("/usr/bin/python3").args(["-c", script]).args(files), "");
    let [github_version, github, gitlab_version, gitlab]: [String; 4] = serde_json::from_str(&out).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!([&*github_version, &*gitlab_version], [version; 2]);
    let name = format!("straddle-{version}-x86_64-unknown-linux-gnu");
    for install in [github, gitlab] {
        let dir = Dir::new("contrib");
        let make = format!(
            "mkdir -p v{version} {name} && cp /bin/true {name}/straddle && tar -czf v{version}/{name}.tar.gz {name} && \
             rm -r {name} && cd v{version} && sha256sum {name}.tar.gz > SHA256SUMS && printf '%064d  other.deb\\n' 0 >> SHA256SUMS"
        );
        tools::shell(&make, dir.path());
        let releases = format!("file://{}", dir.path().display());
        let install = install.replace("https://github.com/straddle/straddle/releases/download", &releases);
        assert!(install.contains(&releases), "{install}");
        let line = format!("set -e; VERSION={version} GITHUB_PATH=$PWD/path; {install}; command -v straddle");
        let out = output(Command::new("bash").args(["-c", &line]).current_dir(dir.path()), "");
        let said = transcript(&out);
        assert!(out.status.success() && said.contains(&format!("{name}/straddle")), "{said}");
        tools::shell(&format!("echo >> v{version}/{name}.tar.gz"), dir.path());
        let out = output(Command::new("bash").args(["-c", &line]).current_dir(dir.path()), "");
        assert!(!out.status.success(), "{}", transcript(&out));
    }
}

#[test]
fn the_role_collects_what_report_takes() {
    if !present(&["sfdisk", "python3"]) {
        return;
    }
    // The values of the role, with its variables filled in as for two hosts.
    let script = "import json, sys, yaml\n\
                  tasks = yaml.safe_load(open(sys.argv[1] + '/tasks/main.yml'))\n\
                  values = yaml.safe_load(open(sys.argv[1] + '/defaults/main.yml'))\n\
                  modules = [{key.split('.')[-1]: value for key, value in task.items()} for task in tasks]\n\
                  check = modules[0]['command']\n\
                  copy = next(task['copy']['dest'] for task in modules if 'copy' in task)\n\
                  argv = next(task['command']['argv'] for task in modules if 'argv' in task.get('command', ''))\n\
                  def filled(text, **more):\n\
                  \x20   for name, value in {**values, **more}.items(): text = text.replace('{{ ' + name + ' }}', str(value))\n\
                  \x20   return text\n\
                  places = [filled(copy, inventory_hostname=name) for name in ('web1', 'web2')]\n\
                  page = [filled(word, straddle_page='page.html') if word != '{{ straddle_page }}' else 'page.html' for word in argv]\n\
                  print(json.dumps([check, *places, ' '.join(page)]))";
    let role = contrib("ansible/roles/straddle");
    let out = run(Command::new("/usr/bin/python3").args(["-c", script]).arg(role), "");
    let [check, first, second, report]: [String; 4] = serde_json::from_str(&out).unwrap();
    let dir = built(false);
    fs::create_dir(dir.join("reports")).unwrap();
    for place in [first, second] {
        sh(&format!("{check} build/disk.img > {place}"), dir.path());
    }
    let out = sh(&report, dir.path());
    assert_eq!(out.status.code(), Some(1), "{report}: {}", transcript(&out));
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(page.contains("2 hosts, 2 disks") && page.contains(">web2<"), "{page}");
}

#[test]
fn builders_scripts_fail_on_a_wrong_image_only() {
    if !present(&["sfdisk"]) {
        return;
    }
    let packer = fs::read_to_string(contrib("packer/audit.pkr.hcl")).unwrap();
    let packer = packer.split_once("inline = [\"").unwrap().1.split_once('"').unwrap().0;
    let packer = format!(
        "mkdir output-debian; cp build/disk.img output-debian/packer-debian; {}",
        packer.replace("${source.name}", "debian")
    );
    let mkosi = format!("OUTPUTDIR=build {}", contrib("mkosi/straddle.postoutput").display());
    let linked = format!("[ ! -e build/disk.img ] || ln -s disk.img build/disk; {mkosi}");
    let compressed = format!("gzip build/disk.img && ln -s disk.img.gz build/disk; {mkosi}");
    let element = contrib("diskimage-builder/elements/straddle/cleanup.d/99-straddle");
    let element = format!("{SUDO} IMAGE_BLOCK_DEVICE=build/disk.img {}", element.display());
    for line in [packer, linked, compressed, element] {
        for (is_right, status) in [(true, 0), (false, 1)] {
            let dir = built(is_right);
            let out = sh(&line, dir.path());
            assert_eq!(out.status.code(), Some(status), "{line}: {}", transcript(&out));
        }
        fails_on_nothing(&line);
    }
    // There is no block device where no disk is built.
    let element = contrib("diskimage-builder/elements/straddle/cleanup.d/99-straddle");
    assert!(!sh(&element.display().to_string(), Path::new("/")).status.success());
}

#[test]
fn what_libguestfs_makes_is_audited() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let script = contrib("libguestfs/audit");
    let audit = |images: &str, dir: &Dir| sh(&format!("{} {images}", script.display()), dir.path());
    for (is_right, status) in [(true, 0), (false, 1)] {
        let dir = built(is_right);
        let convert = ["convert", "-O", "qcow2", "build/disk.img", "a disk.qcow2"];
        run(Command::new("qemu-img").args(convert).current_dir(dir.path()), "");
        let out = audit("build/disk.img 'a disk.qcow2'", &dir);
        let said = transcript(&out);
        assert_eq!(out.status.code(), Some(status), "{said}");
        assert_eq!(said.matches("(S001)").count(), if is_right { 0 } else { 2 }, "{said}");
        // What cannot be judged outweighs findings, and those before and after it are audited all the same.
        let out = audit("build/disk.img no-such.img 'a disk.qcow2'", &dir);
        assert_eq!(out.status.code(), Some(3), "{}", transcript(&out));
        assert!(transcript(&out).contains("a disk.qcow2: "), "{}", transcript(&out));
    }
    fails_on_nothing(&format!("{} build/*.img", script.display()));
    assert!(!sh(&script.display().to_string(), Path::new("/")).status.success());
    if !Path::new("/usr/bin/guestfish").exists() {
        tools::not_run("guestfish is not installed: no file systems are listed");
    }
}

#[test]
fn the_service_is_valid_and_confined() {
    if !present(&["systemd-analyze"]) {
        return;
    }
    let units = ["systemd/straddle-check.service", "systemd/straddle-check.timer"].map(contrib);
    let verified = output(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units), "");
    assert!(verified.status.success() && verified.stderr.is_empty(), "{}", transcript(&verified));
    let rated = run(Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(&units[0]), "");
    let exposure = rated.split_once("Overall exposure level for").unwrap().1;
    let exposure: f64 = exposure.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(exposure < 3.0, "{rated}");
}

#[test]
fn the_service_writes_metrics() {
    if !present(&["sfdisk"]) {
        return;
    }
    let unit = fs::read_to_string(contrib("systemd/straddle-check.service")).unwrap();
    let line = unit.split_once("ExecStart=").unwrap().1.lines().next().unwrap();
    let image = "build/disk.img";
    let line = line.replace("check --no-wake", &format!("check {image} --no-wake"));
    assert!(line.contains(image), "a timer must not wake disks: {line}");
    let dir = built(false);
    let out = sh(&line, dir.path());
    assert!(out.status.success(), "{}", transcript(&out));
    let metrics = fs::read_to_string(dir.join("straddle.prom")).unwrap();
    assert!(metrics.contains("straddle_misaligned_partitions{target=\"build/disk.img\"} 1"), "{metrics}");
    // A run that cannot begin leaves the last metrics.
    let out = sh(&line.replace("check ", "check --no-such-option "), dir.path());
    assert!(!out.status.success());
    assert_eq!(fs::read_to_string(dir.join("straddle.prom")).unwrap(), metrics);
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_exist() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = built(false);
    let metrics = sh("straddle check --output-format prometheus build/disk.img", dir.path());
    let metrics = tools::text(&metrics.stdout);
    let known: BTreeSet<&str> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let board: Value = serde_json::from_slice(&fs::read(contrib("grafana/straddle.json")).unwrap()).unwrap();
    let mut shown = BTreeSet::new();
    for panel in tools::list(&board, "panels") {
        let expression = tools::word(&panel["targets"][0], "expr");
        let names = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
        shown.extend(names.filter(|name| name.starts_with("straddle_")).map(str::to_owned));
    }
    let rules = fs::read_to_string(contrib("prometheus/straddle.rules.yml")).unwrap();
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let names = expressions.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    shown.extend(names.filter(|name| name.starts_with("straddle_")).map(str::to_owned));
    assert!(shown.len() >= 3, "{shown:?}");
    assert!(shown.iter().all(|name| known.contains(name.as_str())), "{shown:?} {known:?}");
}
