//! Examining an object on a server.

use crate::Findings;
use straddle_device::{Address, Target};

use crate::examine::{ExamineError, Examined, Examiner};

impl Examiner {
    /// Opens, reads and audits the object at `address`. Only its bytes are fetched, and only those that are read.
    #[cfg(feature = "remote")]
    pub fn examine_object(&self, address: &Address) -> Result<Examined, ExamineError> {
        let object = self.client().open(address).map_err(|error| ExamineError::Remote(error.into()))?;
        let target =
            straddle_device::open_object(Box::new(object.clone()), address.clone(), &self.options.open);
        let examined = target.map_err(ExamineError::from).and_then(|mut target| {
            target.remarks.extend(object.remarks().iter().map(|&remark| remark.to_owned()));
            self.examine_target(address.to_string(), target)
        });
        // What was not fetched is not absent: no verdict follows.
        if let Some(failure) = object.failure() {
            return Err(ExamineError::Remote(failure));
        }
        let mut examined = examined?;
        examined.target.traffic = Some(object.traffic());
        Ok(examined)
    }

    /// Refuses the object at `address`: this build cannot fetch.
    #[cfg(not(feature = "remote"))]
    pub fn examine_object(&self, address: &Address) -> Result<Examined, ExamineError> {
        let _ = address;
        Err(ExamineError::NotBuilt)
    }
}

pub(crate) fn local_name(target: &Target, name: &str) -> String {
    target.address.as_ref().map_or_else(|| name.to_owned(), Address::copy_name)
}

/// Returns the command that makes the copy, which ends the remark.
pub(crate) fn remark_copy(target: &mut Target, findings: &Findings) -> Option<String> {
    let address = target.address.as_ref()?;
    if !findings.has_commands() {
        return None;
    }
    let command = address.fetch_command();
    let how = match &command {
        Some(command) => format!("download it: {command}"),
        None => format!("download it as {}", address.copy_name()),
    };
    target.remarks.insert(
        0,
        format!(
            "the commands below are for a local copy, which must be checked again because unallocated space \
             was not read. First, {how}"
        ),
    );
    command
}
