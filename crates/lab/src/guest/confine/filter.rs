//! A filter of system calls (seccomp(2)).
//!
//! It can examine numbers but not paths. That suffices for modes, and for calls that a guest does not need.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

const X32: libc::c_long = 0x4000_0000;

const SET_ID: [u64; 2] = [0o4000, 0o2000];
/// Of mknod's file types, only devices have this bit. Symbolic links have it too, but mknod does not create them.
const DEVICE: u64 = 0o020_000;
/// O_CREAT and O_TMPFILE. Without them the mode argument is ignored.
const CREATES: [u64; 2] = [0o100, 0o20_000_000];

/// Calls that always fail with EPERM: mounts, namespaces, and ways around this filter.
const REFUSED: [libc::c_long; 10] = [
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

const MODES: [(libc::c_long, u8); 7] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that have a mode when they create a file, with the indexes of flags and mode.
const OPENS: [(libc::c_long, u8, u8); 2] = [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)];

const FCHMODAT2: libc::c_long = 452;

/// Calls, and when they are refused: always without rules, or if one of them applies.
type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

pub(super) struct Filter([BpfProgram; 2]);

impl Filter {
    /// If `is_strict`, it also refuses changes of modes, owners, times and attributes.
    pub(super) fn new(is_strict: bool) -> Result<Self, BackendError> {
        let missing = MISSING.map(|call| (call, Vec::new())).into();
        Ok(Self([program(refused(is_strict)?, libc::EPERM)?, program(missing, libc::ENOSYS)?]))
    }

    /// Installs the filters. This cannot be undone.
    pub(super) fn install(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|program| apply_filter(program).map_err(|_| io::Error::last_os_error()))
    }
}

fn refused(is_strict: bool) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for (call, mode) in MODES {
        let is_mknod = [libc::SYS_mknod, libc::SYS_mknodat].contains(&call);
        let bits = SET_ID.into_iter().chain(is_mknod.then_some(DEVICE));
        let refused = bits.map(|bit| SeccompRule::new(vec![has(mode, bit)?]));
        rules.insert(call, refused.collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPENS {
        let both = CREATES.into_iter().flat_map(|creates| SET_ID.map(|bit| (creates, bit)));
        let refused =
            both.map(|(creates, bit)| SeccompRule::new(vec![has(flags, creates)?, has(mode, bit)?]));
        rules.insert(call, refused.collect::<Result<_, _>>()?);
    }
    let metadata: &[libc::c_long] = if is_strict { &METADATA } else { &[] };
    rules.extend(REFUSED.iter().chain(metadata).map(|call| (*call, Vec::new())));
    Ok(rules)
}

fn has(argument: u8, bit: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit)
}

/// A program that lets these calls fail, also by their numbers for x32.
fn program(rules: Rules, error: libc::c_int) -> Result<BpfProgram, BackendError> {
    let foreign = rules.clone().into_iter().map(|(call, rules)| (call | X32, rules));
    let rules = foreign.chain(rules.clone()).collect();
    let refused = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refused, TargetArch::x86_64)?.try_into()
}
