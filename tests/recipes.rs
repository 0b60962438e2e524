//! The recipes of `contrib`, each run by the tool that it is for. `make recipes` installs these, and sets RECIPES.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::contrib::{built, contrib, sh};
use crate::tools;

use std::fs;
use std::path::Path;
use std::process::Output;

use tools::{Dir, transcript};

/// Runs `line` with the tools of `scripts/recipes`.
fn with_tools(line: &str, dir: &Path) -> Output {
    assert!(std::env::var_os("RECIPES").is_some(), "make recipes sets RECIPES to the folder of the tools");
    sh(&format!("export PATH=$RECIPES/bin:$RECIPES/venv/bin:$PATH; {line}"), dir)
}

/// The same, for what must succeed.
fn passes(line: &str, dir: &Path) -> String {
    let out = with_tools(line, dir);
    assert!(out.status.success(), "{line}: {}", transcript(&out));
    transcript(&out)
}

/// The same, for what must fail because of a misaligned partition.
fn fails(line: &str, dir: &Path) {
    let out = with_tools(line, dir);
    let said = transcript(&out);
    assert!(!out.status.success() && said.contains("MISALIGNED"), "{line}: {said}");
}

#[test]
#[ignore = "make recipes"]
fn pipelines_are_valid() {
    let dir = contrib("");
    passes("actionlint github/audit.yml", &dir);
    passes("check-jsonschema --builtin-schema vendor.github-workflows github/audit.yml", &dir);
    passes(
        "check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci gitlab/audit.yml",
        &dir,
    );
}

/// Microsoft's validator of the schema, the specification, and what GitHub's code scanning asks for.
#[test]
#[ignore = "make recipes"]
fn the_report_is_valid_for_code_scanning() {
    let dir = built(false);
    let said = passes(
        "straddle check --output-format sarif build/disk.img missing > a.sarif; \
         DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 $RECIPES/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool \
         validate a.sarif --rule-kind 'Sarif;Ghas' --level Error",
        dir.path(),
    );
    assert!(said.contains("1 files scanned") && !said.contains(": error "), "{said}");
}

#[test]
#[ignore = "make recipes"]
fn the_role_runs() {
    let dir = built(false);
    tools::shell("mkdir bin wrong && cp build/disk.img wrong/", dir.path());
    fs::remove_dir_all(dir.join("build")).unwrap();
    let disk = built(true);
    let here = dir.path().display();
    // The disks of a host are those of one folder, or one that cannot be read.
    let straddle = tools::STRADDLE;
    fs::write(
        dir.join("bin/straddle"),
        format!("#!/bin/sh\n[ \"$1\" != check ] || set -- \"$@\" \"$DISK\"\nexec {straddle} \"$@\"\n"),
    )
    .unwrap();
    fs::write(
        dir.join("hosts.yml"),
        format!(
            "all:\n  vars: {{ansible_connection: local, ansible_python_interpreter: /usr/bin/python3}}\n  hosts:\n    \
             right: {{disk: {}/build/disk.img}}\n    wrong: {{disk: {here}/wrong/disk.img}}\n    \
             unread: {{disk: {here}/missing}}\n",
            disk.path().display()
        ),
    )
    .unwrap();
    fs::write(
        dir.join("site.yml"),
        format!(
            "- hosts: all\n  gather_facts: false\n  environment:\n    PATH: \"{here}/bin:{{{{ lookup('env', 'PATH') }}}}\"\n    \
             DISK: \"{{{{ disk }}}}\"\n  roles:\n    - straddle\n"
        ),
    )
    .unwrap();
    tools::shell("chmod +x bin/straddle", dir.path());
    let roles = contrib("ansible/roles");
    let play = |options: &str| {
        let line = format!(
            "ANSIBLE_ROLES_PATH={} ansible-playbook -i hosts.yml site.yml {options}",
            roles.display()
        );
        let out = with_tools(&line, dir.path());
        let said = transcript(&out);
        let failed = |host: &str| {
            let row = said.lines().find(|line| line.starts_with(host) && line.contains("failed=")).unwrap();
            !row.contains("failed=0")
        };
        assert!(said.contains("/missing: cannot open: "), "{said}");
        (out.status.success(), ["right", "wrong", "unread"].map(failed))
    };
    assert_eq!(play("--check"), (true, [false; 3]));
    assert!(!dir.join("reports").exists());
    assert_eq!(play("-e straddle_page=page.html"), (true, [false; 3]));
    assert!(fs::read_to_string(dir.join("page.html")).unwrap().contains("3 hosts, 3 disks"));
    assert_eq!(play("-e '{straddle_fail_on: [warning, error, blank]}'"), (false, [false, true, false]));
    assert_eq!(play("-e '{straddle_fail_on: [failed]}'"), (false, [false, false, true]));
    passes("ansible-lint --offline roles/straddle", &contrib("ansible"));
}

/// Builds with QEMU: the boot sector of the image resets the machine, which `-no-reboot` makes the end.
#[test]
#[ignore = "make recipes"]
fn packer_fails_on_a_wrong_image_only() {
    let recipe = fs::read_to_string(contrib("packer/audit.pkr.hcl")).unwrap();
    let template = format!(
        "source \"qemu\" \"debian\" {{\n  iso_url = \"build/disk.img\"\n  iso_checksum = \"none\"\n  disk_image = true\n  \
         disk_size = \"64M\"\n  accelerator = \"tcg\"\n  headless = true\n  disable_vnc = true\n  communicator = \"none\"\n  \
         shutdown_timeout = \"1m\"\n  qemuargs = [[\"-no-reboot\"]]\n}}\nbuild {{\n  sources = [\"source.qemu.debian\"]\n{recipe}}}\n"
    );
    for is_right in [true, false] {
        let dir = built(is_right);
        tools::shell(
            "printf '\\260\\376\\346\\144\\364' | dd of=build/disk.img conv=notrunc status=none",
            dir.path(),
        );
        fs::write(dir.join("build.pkr.hcl"), &template).unwrap();
        let build = "CHECKPOINT_DISABLE=1 packer build -color=false build.pkr.hcl";
        if is_right { drop(passes(build, dir.path())) } else { fails(build, dir.path()) }
    }
    passes("packer fmt -check packer/audit.pkr.hcl", &contrib(""));
}

#[test]
#[ignore = "make recipes"]
fn alerts_fire_when_they_should() {
    let dir = contrib("prometheus");
    passes("promtool check rules straddle.rules.yml && promtool test rules test.yml", &dir);
}

/// The compiler of TypeScript checks the dashboard against Grafana's own types.
#[test]
#[ignore = "make recipes"]
fn the_dashboard_has_the_types_of_grafana() {
    let board = fs::read_to_string(contrib("grafana/straddle.json")).unwrap();
    let script = format!(
        "import type {{ Dashboard }} from '@grafana/schema';\nexport const board: Dashboard = {board};\n"
    );
    let line = format!(
        "cd \"$RECIPES\" && cat > board.ts <<'EOF' && node_modules/.bin/tsc --noEmit --strict --skipLibCheck \
         --moduleResolution bundler --module esnext --target es2022 board.ts\n{script}\nEOF"
    );
    passes(&line, contrib("").as_path());
}

/// The image is compressed, and linked as mkosi links the disks that it makes.
#[test]
#[ignore = "make recipes"]
fn mkosi_fails_on_a_wrong_image_only() {
    let script = contrib("mkosi/straddle.postoutput");
    let folder = Path::new(tools::STRADDLE).parent().unwrap();
    for is_right in [true, false] {
        let dir = built(is_right);
        tools::shell("mkdir -p tree/etc tree/usr/lib", dir.path());
        fs::write(dir.join("tree/usr/lib/os-release"), "ID=none\n").unwrap();
        fs::write(
            dir.join("mkosi.finalize"),
            "#!/bin/sh\nzstd -q build/disk.img -o \"$OUTPUTDIR/disk.raw.zst\" && ln -s disk.raw.zst \"$OUTPUTDIR/disk\"\n",
        )
        .unwrap();
        fs::write(
            dir.join("mkosi.conf"),
            format!(
                "[Distribution]\nDistribution=custom\n[Output]\nFormat=directory\n[Content]\nBaseTrees=tree\n\
                 PostOutputScripts={}\n[Build]\nExtraSearchPaths={}\n",
                script.display(),
                folder.display()
            ),
        )
        .unwrap();
        tools::shell("chmod +x mkosi.finalize", dir.path());
        let build = "$RECIPES/mkosi/bin/mkosi build";
        if is_right { drop(passes(build, dir.path())) } else { fails(build, dir.path()) }
    }
}

/// Two builds of a Debian; the second starts its partition at sector 63.
#[test]
#[ignore = "make recipes"]
fn diskimage_builder_fails_on_a_wrong_image_only() {
    if !fs::read_to_string("/proc/misc").unwrap().contains("device-mapper") {
        tools::not_run("kpartx, which diskimage-builder runs, needs the kernel's device-mapper");
        return;
    }
    let dir = Dir::new("dib");
    let elements = contrib("diskimage-builder/elements");
    fs::write(
        dir.join("wrong.yaml"),
        "- local_loop: {name: image0}\n- partitioning:\n    base: image0\n    label: mbr\n    align: 32256B\n    partitions:\n      \
         - name: root\n        flags: [boot, primary]\n        size: 100%\n        \
         mkfs: {mount: {mount_point: /, fstab: {options: defaults, fsck-passno: 1}}}\n",
    )
    .unwrap();
    let build = format!(
        "export ELEMENTS_PATH={} DIB_RELEASE=bookworm TMP_DIR=$PWD DIB_IMAGE_CACHE=$PWD/cache DIB_DEBOOTSTRAP_CACHE=1 \
         DIB_DEBIAN_USE_DEBOOTSTRAP_CACHE=1 DIB_DEBIAN_SECURITY_MIRROR=http://deb.debian.org/debian-security; mkdir -p cache; \
         disk-image-create --no-tmpfs -t raw -o image vm debian-minimal straddle",
        elements.display()
    );
    passes(&build, dir.path());
    fails(&format!("export DIB_BLOCK_DEVICE_CONFIG=file://$PWD/wrong.yaml; {build}"), dir.path());
}
