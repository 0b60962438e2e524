//! Landlock: rules that any process can impose on itself and cannot remove.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::Writable;

/// The version whose rights are used, as far as the kernel has them: since 4, TCP is forbidden, and since 6 are signals
/// and abstract sockets to processes outside.
const VERSION: ABI = ABI::V6;

/// Returns rules that forbid writing except to `writable` and to the file `null`.
pub(super) fn rules(writable: &Writable, null: &Path) -> std::io::Result<RulesetCreated> {
    let refused = |error: RulesetError| std::io::Error::other(error);
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_write(VERSION))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(VERSION)))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let in_folders = AccessFs::from_write(VERSION) & !devices;
    let to_files = AccessFs::WriteFile | AccessFs::Truncate;
    let folders = writable.folders.iter().map(|folder| (folder.as_path(), in_folders));
    let files = writable.files.iter().map(PathBuf::as_path).chain([null]).map(|file| (file, to_files));
    folders.chain(files).try_fold(rules, |rules, (path, access)| {
        let place = PathFd::new(path).map_err(std::io::Error::other)?;
        rules.add_rule(PathBeneath::new(place, access)).map_err(refused)
    })
}
