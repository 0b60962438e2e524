//! A filter of system calls (seccomp(2)), written as a classic BPF program.
//!
//! It can examine numbers but not paths. That suffices for modes, and for calls that a guest does not need.

use std::io;

use libc::sock_filter;

use super::checked;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER_OR_EQUAL: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const X86_64: u32 = 0xc000_003e;
/// System call numbers from here on are those of x32.
const FOREIGN: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// The bit that, among the file types that mknod creates, only devices have. Symbolic links have it too, but
/// mknod does not create them.
const DEVICE: u32 = 0o020_000;
/// O_CREAT and O_TMPFILE. Without them the mode argument is ignored.
const CREATES: u32 = 0o100 | 0o20_000_000;

/// Calls that always fail with EPERM: mounts, namespaces, and ways around this filter.
const REFUSED: [libc::c_long; 12] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_io_uring_setup,
    libc::SYS_openat2,
];

/// Calls that fail with ENOSYS, because programs that try them fall back to older calls.
const MISSING: [libc::c_long; 2] = [libc::SYS_io_uring_setup, libc::SYS_openat2];

/// Calls that change metadata, which Landlock does not protect.
const METADATA: [libc::c_long; 18] = [
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_utimensat,
    libc::SYS_futimesat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// Calls with a mode, and the index of that argument.
const MODES: [(libc::c_long, u32); 7] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that have a mode when they create a file, with the indexes of flags and mode.
const OPENS: [(libc::c_long, u32, u32); 2] = [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)];

const FCHMODAT2: libc::c_long = 452;

/// A filter that is ready to be installed.
pub(super) struct Filter(Vec<sock_filter>);

impl Filter {
    /// Refuses mounts, devices and set-ID files and, if `is_strict`, also changes of modes, owners, times and
    /// attributes.
    pub(super) fn new(is_strict: bool) -> Self {
        let eperm = FAIL | libc::EPERM.unsigned_abs();
        let enosys = FAIL | libc::ENOSYS.unsigned_abs();
        let mut this = Self(Vec::new());
        this.put(LOAD, ARCHITECTURE, 0, 0);
        this.put(IF_EQUAL, X86_64, 1, 0);
        this.put(RETURN, eperm, 0, 0);
        this.put(LOAD, NUMBER, 0, 0);
        this.put(IF_GREATER_OR_EQUAL, FOREIGN, 0, 1);
        this.put(RETURN, enosys, 0, 0);
        let metadata: &[libc::c_long] = if is_strict { &METADATA } else { &[] };
        for call in REFUSED.iter().chain(metadata) {
            this.on(*call, 1);
            this.put(RETURN, if MISSING.contains(call) { enosys } else { eperm }, 0, 0);
        }
        for (call, mode) in MODES {
            this.on(call, 4);
            this.refuse_bits(mode, if is_mknod(call) { SET_ID | DEVICE } else { SET_ID }, eperm);
        }
        for (call, flags, mode) in OPENS {
            this.on(call, 7);
            this.put(LOAD, ARGUMENTS + 8 * flags, 0, 0);
            this.put(IF_ANY_BIT, CREATES, 1, 0);
            this.put(RETURN, ALLOW, 0, 0);
            this.refuse_bits(mode, SET_ID, eperm);
        }
        this.put(RETURN, ALLOW, 0, 0);
        this
    }

    /// Makes the next `length` instructions apply to this call only.
    fn on(&mut self, call: libc::c_long, length: u8) {
        self.put(IF_EQUAL, u32::try_from(call).unwrap_or(u32::MAX), 0, length);
    }

    /// Adds four instructions that end the filter: fail with `error` if the argument has any of the bits,
    /// otherwise allow.
    fn refuse_bits(&mut self, argument: u32, bits: u32, error: u32) {
        self.put(LOAD, ARGUMENTS + 8 * argument, 0, 0);
        self.put(IF_ANY_BIT, bits, 0, 1);
        self.put(RETURN, error, 0, 0);
        self.put(RETURN, ALLOW, 0, 0);
    }

    fn put(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code, jt, jf, k });
    }

    /// Installs the filter. This cannot be undone.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).unwrap_or(0),
            filter: self.0.as_ptr().cast_mut(),
        };
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: the program outlives the call, which copies it and does not write to it.
        let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0) };
        checked(result.into()).map(|_| ())
    }
}

const fn is_mknod(call: libc::c_long) -> bool {
    call == libc::SYS_mknod || call == libc::SYS_mknodat
}
