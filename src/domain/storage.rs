//! Why the storage does not take what a call brings, though nothing is wrong with the call.
//!
//! Owns: which of the engine's words mean what to a caller. It refuses to know who asked, and how the answer is worded.

/// What the caller's owner has to mend, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFailure {
    /// There is no room: a full disk, a quota, or the most that the platform stores.
    Full,
    /// It can be read but not written.
    ReadOnly,
    /// Anything else; the log says what.
    Other,
}

/// Names of SQLite's result codes, which stand at the end of the runtime's messages. A write that the system refuses for a
/// quota or for the size of the file is an I/O error to SQLite, and so is shared memory for which there is no room.
const FULL: [&str; 3] = ["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"];
const READ_ONLY: [&str; 2] = ["SQLITE_READONLY", "SQLITE_PERM"];

impl StorageFailure {
    /// What the runtime's message says.
    pub fn of(message: &str) -> Self {
        let names = |codes: &[&str]| codes.iter().any(|code| message.contains(code));
        if names(&FULL) {
            Self::Full
        } else if names(&READ_ONLY) {
            Self::ReadOnly
        } else {
            Self::Other
        }
    }
}
