//! The host's files as `straddle lab` shows them to its guest: more files than a process may open, files
//! renamed while open, files in closed folders, with any date and any name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/runs.rs"]
mod runs;
use crate::tools;

use std::fs;
use std::process::Command;

use runs::{output, well};
use tools::{Dir, STRADDLE, STRADDLE_LAB, present, text, transcript};

/// The guest's kernel keeps a host file open for each file that it knows.
#[test]
fn a_tree_of_more_files_than_a_process_may_open_is_copied() {
    if !present(&["linux.uml", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("lab-files");
    let tree = dir.join("tree");
    for folder in 0..40 {
        let path = tree.join(folder.to_string());
        fs::create_dir_all(&path).unwrap();
        (0..50)
            .for_each(|file| fs::write(path.join(file.to_string()), format!("{folder} {file}\n")).unwrap());
    }
    let output_folder = dir.join("output");
    fs::create_dir(&output_folder).unwrap();
    let script = "set -e; make_file_system ext4; mount_it ext4; cp -r \"$INPUT\" $MNT/tree; diff -r \"$INPUT\" $MNT/tree
        cp -r $MNT/tree \"$OUTPUT/tree\"; sync; diff -r \"$INPUT\" \"$OUTPUT/tree\"
        cd \"$OUTPUT\"; exec 3<tree/0/0 4<>tree/0/1; cat tree/*/* >/dev/null; rm tree/0/0; mv tree/0 moved; mv moved/1 one
        chmod 0 one; cat tree/*/* >/dev/null; cat <&3; cat <&4; echo more >&4; exec 3<&- 4<&-; chmod 600 one; cat one
        rm -r tree; unmount";
    let limited = |limit: &str| {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("ulimit -n {limit}; exec \"$@\""),
            "sh",
            STRADDLE,
            "lab",
            "--drive",
            "wd10ears",
        ]);
        command.args(["--start", "40s", "--size", "300MiB", "--input"]).arg(&tree);
        command.arg("--output").arg(&output_folder).args(["--", script]).output().unwrap()
    };
    let run = limited("64");
    assert_eq!(text(&run.stdout), "0 0\n0 1\n0 1\nmore\n", "{}", transcript(&run));
    assert!(run.status.success(), "{}", transcript(&run));
    let left = |folder: &str| fs::read_dir(output_folder.join(folder)).unwrap().count();
    assert_eq!((left(""), left("moved")), (2, 48));

    // If the limit is too low for the lab to start, the error names it and how to raise it.
    let starved = limited("16");
    let errors = text(&starved.stderr);
    assert_eq!(starved.status.code(), Some(3), "{errors}");
    assert!(
        errors.contains("open") && errors.contains("ulimit -n") && errors.lines().count() == 1,
        "{errors}"
    );
}

/// A file that is open and written to while it is renamed, with others put in its place, keeps everything
/// written through its descriptor and through a mapping, with more files open than the host has descriptors
/// for.
#[test]
fn what_is_renamed_while_it_is_open_keeps_what_is_written() {
    if !present(&["linux.uml", "perl", "python3"]) {
        return;
    }
    let dir = Dir::new("lab-renamed");
    let script = r#"set -e
        cd "$OUTPUT"
        mkdir many; for n in {1..300}; do echo $n >many/$n; done
        python3 - <<-'END'
	import mmap, os, subprocess
	def crowd(): return [open(f"many/{n}") for n in range(1, 301)]
	def renamed(how, name, line):
	    os.makedirs(name); path = f"{name}/file"
	    with open(path, "wb") as file: file.write(b"x" * 4096)
	    with open(f"{name}/other", "wb") as file: file.write(b"other")
	    written, mapped = open(path, "ab"), open(path, "r+b")
	    mapping = mmap.mmap(mapped.fileno(), 4096)
	    others = crowd()
	    subprocess.run(line, shell=True, check=True, cwd=name)
	    others += crowd()
	    assert [int(file.read()) for file in others[300:]] == list(range(1, 301))
	    mapping[:6] = b"mapped"; mapping.flush()
	    written.write(b"end"); written.flush(); os.fsync(written.fileno())
	    written.close(); mapping.close(); mapped.close()
	    for file in others: file.close()
	renamed("mv", "one", "mv file moved")
	renamed("mv -T over", "two", "mv -T file other && mv other moved")
	renamed("folder", "three", "mkdir in && mv file in/file && mv in to && mv to/file moved")
	renamed("rename", "four", """perl -e 'rename "file", "moved"'""")
	renamed("exchange", "five", "python3 -c \"import ctypes; assert ctypes.CDLL(None).renameat2(-100, b'file', -100, b'other', 2) == 0\" && mv other moved")
	END
        sync"#;
    let run = |limit: &str| {
        let output_folder = dir.join(limit);
        fs::create_dir(&output_folder).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh", STRADDLE, "lab"]);
        command.args(["--drive", "wd10ears", "--output"]).arg(&output_folder).args(["--", script]);
        let run = command.output().unwrap();
        assert!(run.status.success(), "{}", transcript(&run));
        for name in ["one", "two", "three", "four", "five"] {
            let bytes = fs::read(output_folder.join(name).join("moved")).unwrap();
            assert!(bytes.starts_with(b"mappedxx") && bytes.ends_with(b"xend"), "{limit} {name}");
            assert_eq!(bytes.len(), 4096 + 3, "{limit} {name}");
        }
    };
    ["64", "1024"].into_iter().for_each(run);
}

/// An ordinary user's files below a folder that nobody may enter: more of them are open than the host has
/// descriptors for.
#[test]
fn what_is_open_in_a_folder_that_is_closed_can_be_read() {
    if !present(&["linux.uml", "python3", "setpriv"]) {
        return;
    }
    let dir = Dir::new("lab-closed");
    let (straddle, folder) = (dir.join("straddle"), dir.join("output"));
    fs::create_dir(&folder).unwrap();
    crate::tools::copy_program(STRADDLE_LAB, &straddle);
    for path in [dir.path(), &straddle, &folder] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let script = r#"cd "$OUTPUT"; mkdir many; for n in {1..300}; do echo $n >many/$n; done
        python3 - <<-'END'
	import os
	files = [open(f"many/{n}") for n in range(1, 301)]
	os.chmod("many", 0)
	assert [int(file.read()) for file in files] == list(range(1, 301))
	os.chmod("many", 0o700)
	print(open("many/300").read(), end="")
	END"#;
    let line = [straddle.to_str().unwrap(), "lab", "--drive", "wd10ears", "--output"];
    let user = tools::ordinary_user_of_lab(&straddle);
    let mut command = Command::new(user[0]);
    command.args(&user[1..]).args(["sh", "-c"]);
    command.args(["ulimit -n 512; exec \"$@\"", "sh"]).args(line).arg(&folder).args(["--", script]);
    let run = command.current_dir("/").output().unwrap();
    assert_eq!(text(&run.stdout), "300\n", "{}", transcript(&run));
}

/// Files that the guest writes to the host have the guest's time stamps in the guest, so programs that
/// compare times behave the same in every run.
#[test]
fn times_of_files_that_the_guest_has_written_are_its_own() {
    if !present(&["linux.uml"]) {
        return;
    }
    let script = "cd $OUTPUT; n=0; for i in {1..20}; do echo a >a$i; sleep 60; echo b >b$i; [ b$i -nt a$i ] && n=$((n + 1)); done; echo $n
        for i in {1..20}; do rm a$i; ln -s b$i a$i; stat -c %Y a$i; done | uniq -c";
    // Both runs use the same folder, because its name is part of the guest's input.
    let dir = Dir::new("lab-times");
    let folder = dir.path().to_str().unwrap();
    let script = script.replace("$OUTPUT", "\"$OUTPUT\"");
    let reports = [(); 2].map(|()| {
        let report = well(&["--drive", "wd10ears", "--output", folder, "--", &script]);
        fs::read_dir(folder).unwrap().for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
        report
    });
    let (newer, links) = output(&reports[0]).split_once('\n').unwrap();
    // The host reuses the inodes of removed files for the links; what the lab recorded about those files must
    // be forgotten.
    assert_eq!((newer, links.lines().count()), ("20", 1), "{links}");
    assert_eq!(reports[0]["spent"], reports[1]["spent"]);
}

/// A folder may have any possible name.
#[test]
fn a_folder_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    if !present(&["linux.uml"]) {
        return;
    }
    let names: [&[u8]; 4] = [b"dq\"x, \\0123 #'$(x)", b"new\nline\ttab", b"\xff\xfe", b" -lead"];
    for name in names {
        let dir = Dir::new("lab-names");
        let folder = dir.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::create_dir(folder.join("out")).unwrap();
        fs::write(folder.join("in/file"), "input\n").unwrap();
        let mut command = Command::new(STRADDLE);
        command.args(["lab", "--drive", "wd10ears", "--input", "in", "--output", "out", "--"]);
        command.arg("cat in/file \"$INPUT/file\"; pwd; echo output >\"$OUTPUT/file\"").current_dir(&folder);
        let run = command.output().unwrap();
        let expected =
            [b"input\ninput\n", folder.canonicalize().unwrap().as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(run.stdout, expected, "{}", transcript(&run));
        assert_eq!(fs::read_to_string(folder.join("out/file")).unwrap(), "output\n");
    }
}
