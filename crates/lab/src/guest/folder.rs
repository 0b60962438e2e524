//! The folder of a run: what the guest finds there, and what it leaves.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::guest::job::{GuestError, HostedJob, Job, Measured, Partition, Task};
use crate::guest::orphan::RunFolder;

/// The path of a socket in the folder is limited to 108 bytes.
const LONGEST_PATH: usize = 80;

const INIT: &str = include_str!("../../init/init");

/// The mount of the guest's own /tmp, because the contents of the host's differ from run to run.
const TEMPORARY: &[u8] = b"none /tmp tmpfs size=90%\n";

/// The modification time of the folder's files that the guest sees: 2023-11-14.
const AGE: Duration = Duration::from_secs(1_700_000_000);

/// Of a file that a guest leaves, in bytes.
const MOST_LEFT: u64 = 16 << 20;

pub(crate) const CLOCK: &str = "clock";
pub(crate) const EVENTS: &str = "events";
/// Links to the host folders that the guest sees at their own paths.
const CURRENT: &str = "current";
const INPUT: &str = "input";
const OUTPUT: &str = "output";

pub(crate) struct Setup<'a> {
    task: &'a Task,
    folders: &'a [PathBuf],
    partitions: Vec<Partition>,
    /// Instead of the host's files.
    is_tmp_own: bool,
}

impl<'a> From<&'a Job> for Setup<'a> {
    fn from(job: &'a Job) -> Self {
        let partitions = job.drives.iter().map(|drive| drive.partition).collect();
        Self { task: &job.task, folders: &[], partitions, is_tmp_own: true }
    }
}

impl<'a> From<&'a HostedJob> for Setup<'a> {
    fn from(job: &'a HostedJob) -> Self {
        let partitions = job.drives.iter().map(|drive| drive.partition).collect();
        Self { task: &job.task, folders: &job.folders, partitions, is_tmp_own: false }
    }
}

pub(crate) struct Folder(RunFolder);

impl Folder {
    pub(crate) fn new(setup: &Setup<'_>) -> Result<Self, GuestError> {
        let parent = parent();
        let failed = |source| {
            GuestError::io(format!("cannot create a directory for the guest in {}", parent.display()))(source)
        };
        let this = Self(RunFolder::new(&parent).map_err(failed)?);
        let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        for (name, text, executable) in [
            ("init", INIT.as_bytes(), true),
            ("library", setup.task.library.as_bytes(), false),
            ("script", setup.task.script.as_bytes(), true),
            ("job", &description(setup, &current), false),
            ("folders", &folders(setup, &current), false),
            ("results", &[], false),
        ] {
            this.write(name, text, executable).map_err(failed)?;
        }
        for (name, path) in shared(setup, &current) {
            std::os::unix::fs::symlink(path, this.path().join(&*name)).map_err(failed)?;
        }
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn listen(&self, name: &str) -> Result<UnixListener, GuestError> {
        UnixListener::bind(self.path().join(name))
            .map_err(GuestError::io("cannot create a socket for the guest"))
    }

    pub(crate) fn status(&self) -> Option<i32> {
        String::from_utf8(read_left(&self.path().join("status"))?).ok()?.trim().parse().ok()
    }

    pub(crate) fn results(&self) -> Vec<u8> {
        read_left(&self.path().join("results")).unwrap_or_default()
    }

    pub(crate) fn measures(&self) -> Vec<Measured> {
        let text = String::from_utf8(self.results()).unwrap_or_default();
        text.lines().filter_map(Measured::parse).collect()
    }

    fn write(&self, name: &str, text: &[u8], executable: bool) -> io::Result<()> {
        let mut file = File::create(self.path().join(name))?;
        file.write_all(text)?;
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        // The guest sees this time, so it must be the same in every run.
        file.set_modified(SystemTime::UNIX_EPOCH + AGE)
    }
}

/// Reads a file that the guest has left. Its root may have put anything there: only short regular files are read.
fn read_left(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MOST_LEFT)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
    file.take(MOST_LEFT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the folder in which the folders of runs are created.
pub fn parent() -> PathBuf {
    let usual = std::env::temp_dir();
    // The guest's kernel mounts its own /dev before it looks for its first process in the folder.
    let hidden = usual.starts_with("/dev");
    let fits = !hidden && usual.as_os_str().len() <= LONGEST_PATH;
    if fits { usual } else { PathBuf::from("/tmp") }
}

/// Each with the name of the link to it in the run's folder.
fn shared<'a>(
    setup: &'a Setup<'_>,
    current: &'a Path,
) -> impl Iterator<Item = (Cow<'static, str>, &'a Path)> {
    let given = [(INPUT, setup.task.input.as_deref()), (OUTPUT, setup.task.output.as_deref())];
    let given = given.into_iter().filter_map(|(name, path)| Some((name.into(), path?)));
    let further = setup.folders.iter().enumerate();
    let further = further.map(|(number, path)| (format!("folder{number}").into(), path.as_path()));
    std::iter::once((CURRENT.into(), current)).chain(given).chain(further)
}

/// Returns the table of mounts besides the kernel's own: /tmp, the writable host folder, and the host folders that
/// the guest's own /dev, /run and /tmp would hide, outer folders first.
fn folders(setup: &Setup<'_>, current: &Path) -> Vec<u8> {
    let all = ["/", "/dev", "/run", "/tmp"].map(Path::new);
    let own = if setup.is_tmp_own { &all[..] } else { &all[..3] };
    let is_covered = |path: &Path| own[1..].iter().any(|covering| path.starts_with(covering));
    let is_writable = |name: &str| name == OUTPUT;
    let is_mounted = |(name, path): &(Cow<'_, str>, &Path)| {
        is_writable(name) || (is_covered(path) && !(name == CURRENT && own.contains(path)))
    };
    let mut mounts: Vec<_> = shared(setup, current).filter(is_mounted).collect();
    // If two folders have the same path, the writable one is mounted last and is therefore visible.
    mounts.sort_by_key(|(name, path)| (path.as_os_str().len(), is_writable(name)));
    let mut table = if setup.is_tmp_own { TEMPORARY.to_vec() } else { Vec::new() };
    for (name, path) in mounts {
        table.extend_from_slice(b"none ");
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b'!'..=b'~' if !b"\\#".contains(byte) => table.push(*byte),
                0x80.. => table.push(*byte),
                byte => table.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            }
        }
        let mode = if is_writable(&name) { "rw" } else { "ro" };
        table.extend_from_slice(format!(" hostfs {mode},x-mount.mkdir,/proc/self/cwd/{name}/.\n").as_bytes());
    }
    table
}

fn description(setup: &Setup<'_>, current: &Path) -> Vec<u8> {
    let Setup { task, partitions, .. } = setup;
    let letters: Vec<String> = (0..partitions.len()).map(|index| letter(index).to_string()).collect();
    let mut text = Vec::new();
    let mut line = |words: &[&[u8]]| {
        text.extend(words.concat());
        text.push(b'\n');
    };
    let path = |path: &Option<PathBuf>| path.as_deref().map_or(Vec::new(), |path| quoted(path.as_os_str()));
    line(&[b"CURRENT=", &quoted(current.as_os_str())]);
    line(&[b"export INPUT=", &path(&task.input), b" OUTPUT=", &path(&task.output)]);
    let arguments: Vec<Vec<u8>> = task.arguments.iter().map(|argument| quoted(argument.as_ref())).collect();
    line(&[b"ARGUMENTS=(", &arguments.join(&b' '), b")"]);
    line(&[b"LETTERS=(", letters.join(" ").as_bytes(), b")"]);
    line(&[b"declare -A STARTS SIZES TABLES"]);
    for (index, partition) in partitions.iter().enumerate() {
        let start = partition.start.map_or("none".to_owned(), |start| start.to_string());
        let size = partition.size.map_or(String::new(), |size| size.to_string());
        let table = partition.table.label();
        line(&[
            format!("STARTS[{0}]={start} SIZES[{0}]={size} TABLES[{0}]={table}", letter(index)).as_bytes()
        ]);
    }
    let settings =
        task.settings.iter().flat_map(|(file, value)| [quoted(file.as_ref()), quoted(value.as_ref())]);
    line(&[b"SETTINGS=(", &settings.collect::<Vec<_>>().join(&b' '), b")"]);
    for (name, value) in &task.environment {
        line(&[format!("export {name}=").as_bytes(), &quoted(value.as_ref())]);
    }
    text
}

fn letter(index: usize) -> char {
    u8::try_from(index).map_or('z', |index| char::from(b'a' + index.min(25)))
}

fn quoted(text: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in text.as_bytes() {
        match byte {
            b'\'' => word.extend_from_slice(br"'\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{Setup, folders, letter, quoted};
    use crate::guest::job::tests::job;

    /// Every byte that a word can have passes through the shell unchanged.
    #[test]
    fn a_quoted_word_is_one_word_of_the_shell() {
        let all: Vec<u8> = (1..=255).collect();
        for word in [&all[..], b"", b"'", b"$(reboot)", b"a\nb'c\\"] {
            let script = [b"printf %s ", &quoted(OsStr::from_bytes(word))[..]].concat();
            let output = Command::new("bash").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
            assert_eq!(output.stdout, word, "{:?}", output.stderr);
        }
    }

    /// The guest's root may leave anything under the names that are read.
    #[test]
    fn only_short_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = |command: &str| {
            let status = Command::new("sh").args(["-c", command]).current_dir(folder.path()).status();
            assert!(status.unwrap().success(), "{command}");
        };
        run("printf 7 >status; mkfifo fifo; ln -s status link; mkdir folder; truncate -s 1G long; : >empty");
        let read = |name: &str| super::read_left(&folder.path().join(name));
        assert_eq!((read("status"), read("empty")), (Some(b"7".to_vec()), Some(Vec::new())));
        for name in ["fifo", "link", "folder", "long", "missing"] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    #[test]
    fn drives_have_the_letters_of_the_kernel() {
        assert_eq!([0, 1, 25].map(letter), ['a', 'b', 'z']);
    }

    /// As getmntent(3) parses it: words are separated by spaces and tabs, `#` begins a comment, and a
    /// backslash with three octal digits is a byte.
    #[test]
    fn any_name_of_a_folder_is_one_word_of_the_table() {
        let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let place = [b"/run/", &name[..]].concat();
        let mut job = job();
        job.task.output = Some(PathBuf::from(std::ffi::OsString::from_vec(place.clone())));
        let table = folders(&Setup::from(&job), Path::new("/"));
        let lines: Vec<&[u8]> = table.split(|byte| *byte == b'\n').collect();
        assert_eq!((lines[0], lines.len()), (&b"none /tmp tmpfs size=90%"[..], 3), "{table:?}");
        let words: Vec<&[u8]> = lines[1].split(|byte| b" \t".contains(byte)).collect();
        assert_eq!(
            (words.len(), words[2], words[3]),
            (4, &b"hostfs"[..], &b"rw,x-mount.mkdir,/proc/self/cwd/output/."[..])
        );
        let (mut decoded, mut rest) = (Vec::new(), words[1]);
        while let [first, more @ ..] = rest {
            (decoded, rest) = match (first, more) {
                (b'\\', [a, b, c, more @ ..]) => {
                    let digits = std::str::from_utf8(&[*a, *b, *c]).unwrap().to_owned();
                    ([decoded, vec![u8::from_str_radix(&digits, 8).unwrap()]].concat(), more)
                }
                _ => ([decoded, vec![*first]].concat(), more),
            };
        }
        assert_eq!(decoded, place);
    }

    /// Folders that the guest's own folders hide are mounted again, outer ones first. The writable folder is
    /// always mounted.
    #[test]
    fn only_what_is_covered_or_writable_is_mounted() {
        for (current, input, output, expected) in [
            ("/home", "/srv", None, vec![]),
            ("/home", "/run/in", None, vec!["/run/in ro input"]),
            ("/tmp/here", "/tmp", None, vec!["/tmp ro input", "/tmp/here ro current"]),
            ("/tmp", "/tmp/in", Some("/home/out"), vec!["/tmp/in ro input", "/home/out rw output"]),
            (
                "/dev/shm/x",
                "/dev/shm/x",
                Some("/dev/shm/x"),
                vec!["/dev/shm/x ro current", "/dev/shm/x ro input", "/dev/shm/x rw output"],
            ),
        ] {
            let mut job = job();
            (job.task.input, job.task.output) = (Some(input.into()), output.map(PathBuf::from));
            let table = String::from_utf8(folders(&Setup::from(&job), Path::new(current))).unwrap();
            let shown: Vec<String> = table
                .lines()
                .skip(1)
                .map(|line| {
                    let words: Vec<&str> = line.split([' ', ',']).collect();
                    let name = words[5].trim_start_matches("/proc/self/cwd/").trim_end_matches("/.");
                    format!("{} {} {name}", words[1], words[3])
                })
                .collect();
            assert_eq!(shown, expected, "{current} {input} {output:?}");
        }
    }
}
