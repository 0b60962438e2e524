//! A guest of `straddle lab` whose root is malicious: its effect on the host, with any combination of
//! namespaces and Landlock.
//!
//! The victim is a folder that belongs to the caller and was not given to the guest. Its state on the host is
//! compared before and after.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tools::{Dir, STRADDLE, present, text, transcript};

/// Everything that a guest's root can do to files of the host that it mounts again, and to the tree that it
/// runs on. `$V` is the victim.
const ATTACK: &str = r#"
    set +e; trap - ERR
    mkdir -p /run/h; mount -n -t hostfs -o "$V" none /run/h || exit 9
    mount -n -o remount,rw /.host; mount -n -o remount,rw /run/h
    mkdir -p /run/t; mount -n -t hostfs -o / none /run/t
    for h in /run/h "/run/t$V" "/.host$V"; do
        cat "$h/file" || exit 8
        cd "$h" || continue
        echo over >file; echo more >>file; echo new >new; : >file; truncate -s 0 file
        rm -f file gone; mv file other; ln file hard; ln -s file soft; mkdir made; rmdir sub; mkfifo fifo
        mknod device b 8 0; chmod 0777 file; chmod 4755 file; chown 12 file; touch -d 2001-01-01 file
        perl -e 'syscall(188, "file", "user.x", "y", 1, 0)'; rm -rf "$h/sub"
        cd /
    done 2>/dev/null
    echo tried
"#;

/// Runs the rest of its command line with these system calls failing, as on a machine without namespaces or
/// without Landlock.
const WITHOUT: &str = r"
import ctypes, os, struct, sys
calls = [int(call) for call in sys.argv[1].split(',')]
filter = [(0x20, 0, 0, 0)]
for call in calls:
    filter += [(0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | 1)]
filter += [(0x06, 0, 0, 0x7fff0000)]
code = b''.join(struct.pack('HBBI', *line) for line in filter)
buffer = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
program = Program(len(filter), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
";
const UNSHARE: &str = "272";
const LANDLOCK: &str = "444";

/// The user that runs the lab, and the means of confinement on this machine.
#[derive(Clone, Copy, Debug)]
struct Caller {
    wrapper: &'static [&'static str],
    /// The system calls that are made to fail.
    without: &'static str,
}

fn lab(caller: Caller, arguments: &[&str]) -> Output {
    let mut line: Vec<&str> = caller.wrapper.to_vec();
    if !caller.without.is_empty() {
        line.extend(["/usr/bin/python3", "-c", WITHOUT, caller.without]);
    }
    line.extend([STRADDLE, "lab", "--drive", "wd10ears"]);
    line.extend(arguments);
    Command::new(line[0]).args(&line[1..]).stdin(Stdio::null()).current_dir("/").output().unwrap()
}

/// The available users: root and another user if this is root, otherwise the current user.
fn callers() -> Vec<&'static [&'static str]> {
    match tools::ordinary_user_of_lab(Path::new(STRADDLE)) {
        ["env"] => vec![&[]],
        user => vec![&[], user],
    }
}

/// Everything visible of a folder: names, types, modes, owners, times, contents.
fn seen(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in walk(folder) {
        let meta = fs::symlink_metadata(&entry).unwrap();
        let contents = if meta.is_file() { fs::read(&entry).unwrap_or_default() } else { Vec::new() };
        let numbers = (meta.mode(), meta.uid(), meta.gid(), meta.nlink(), meta.mtime(), meta.mtime_nsec());
        lines.push(format!("{} {numbers:?} {}", entry.display(), text(&contents)));
    }
    lines
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if fs::symlink_metadata(&entry).unwrap().is_dir() {
            found.extend(walk(&entry));
        } else {
            found.push(entry);
        }
    }
    found
}

fn give(path: &Path, caller: &[&str]) {
    if !caller.is_empty() {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
}

/// A victim folder that belongs to the caller.
fn victim(dir: &Dir, caller: &[&str]) -> std::path::PathBuf {
    let victim = dir.join("victim");
    fs::create_dir_all(victim.join("sub")).unwrap();
    for name in ["file", "gone", "sub/deep"] {
        fs::write(victim.join(name), "precious\n").unwrap();
    }
    walk(&victim).iter().for_each(|path| give(path, caller));
    victim
}

#[test]
fn a_guests_root_changes_nothing_that_it_was_not_given() {
    if !present(&["linux.uml", "python3", "perl"]) {
        return;
    }
    for wrapper in callers() {
        for without in ["", UNSHARE, LANDLOCK] {
            let caller = Caller { wrapper, without };
            let dir = Dir::new("hostile-guest");
            let victim = victim(&dir, wrapper);
            let output = dir.join("output");
            fs::create_dir(&output).unwrap();
            give(&output, wrapper);
            let before = seen(&victim);
            let script =
                format!("V='{}'; {ATTACK}\ncp /run/h/file \"$OUTPUT/copy\" && sync", victim.display());
            let run = lab(caller, &["--output", output.to_str().unwrap(), "--", &script]);
            assert!(run.status.success(), "{caller:?}: {}", transcript(&run));
            assert!(text(&run.stdout).ends_with("precious\ntried\n"), "{caller:?}: {}", transcript(&run));
            assert_eq!(seen(&victim), before, "{caller:?}");
            // The guest can write to the folder that it was given.
            assert_eq!(fs::read_to_string(output.join("copy")).unwrap(), "precious\n", "{caller:?}");
        }
    }
}

#[test]
fn a_guest_that_cannot_be_confined_does_not_start_unasked() {
    if !present(&["linux.uml", "python3"]) {
        return;
    }
    let caller = Caller { wrapper: &[], without: "272,444" };
    let refused = lab(caller, &["--", "echo started"]);
    assert_eq!(refused.status.code(), Some(3), "{}", transcript(&refused));
    let errors = text(&refused.stderr);
    assert!(errors.contains("--unconfined") && errors.lines().count() == 1, "{errors}");
    assert!(refused.stdout.is_empty());
    let asked = lab(caller, &["--unconfined", "--", "echo started"]);
    assert_eq!(text(&asked.stdout), "started\n", "{}", transcript(&asked));
}

#[test]
fn what_a_guest_leaves_has_no_devices_and_no_set_id_files() {
    if !present(&["linux.uml", "python3"]) {
        return;
    }
    let script = r#"set +e; trap - ERR; cd "$OUTPUT"; mknod block b 8 0; mknod char c 1 3; mkfifo fifo || exit 7
        cp /bin/true set; chmod 0755 set || exit 8; chmod 4755 set; chmod 2755 set; chmod u+s set
        perl -e 'open my $f, ">", "opened"; chmod 06755, "opened"; sysopen my $g, "created", 0101, 06755'
        chmod 4777 .; echo more >>set || exit 9; sync"#;
    for without in ["", UNSHARE, LANDLOCK] {
        let dir = Dir::new("hostile-output");
        let script = if without == UNSHARE { script.replace("|| exit 8", "") } else { script.to_owned() };
        let run =
            lab(Caller { wrapper: &[], without }, &["--output", dir.path().to_str().unwrap(), "--", &script]);
        assert!(run.status.success(), "{without}: {}", transcript(&run));
        let found = walk(dir.path());
        assert!(found.iter().any(|path| path.ends_with("fifo")), "{found:?}");
        for path in found {
            let meta = fs::symlink_metadata(&path).unwrap();
            let kind = meta.file_type();
            assert!(!kind.is_block_device() && !kind.is_char_device(), "{without}: {}", path.display());
            assert_eq!(meta.permissions().mode() & 0o6000, 0, "{without}: {}", path.display());
        }
    }
}

/// A lab that is killed leaves its folder behind, and the next run removes it. A hangup ends a lab as cleanly
/// as Ctrl-C.
#[test]
fn no_folder_stays() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = Dir::new("hostile-orphans");
    let start = || {
        let mut command = Command::new(STRADDLE);
        command.args(["lab", "--drive", "wd10ears", "--", "echo up; while :; do sleep 1; done"]);
        command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
        child
    };
    let folders = || fs::read_dir(dir.path()).unwrap().count();
    let signal = |child: &mut std::process::Child, name: &str| {
        tools::signal(child.id(), name);
        child.wait().unwrap()
    };
    let mut hung_up = start();
    assert_eq!(folders(), 1);
    assert_eq!(signal(&mut hung_up, "HUP").code(), Some(130));
    assert_eq!(folders(), 0, "after a hangup");

    let (mut killed, mut lives) = (start(), start());
    signal(&mut killed, "KILL");
    assert_eq!(folders(), 2);
    let mut next = start();
    assert_eq!(folders(), 2, "the one that lives stays");
    signal(&mut next, "INT");
    assert_eq!(folders(), 1);
    signal(&mut lives, "KILL");
    // A later run removes it as well.
    let mut next = start();
    assert_eq!(folders(), 1);
    signal(&mut next, "INT");
    assert_eq!(folders(), 0);
}
