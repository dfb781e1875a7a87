//! What is counted of a run.

/// What the world has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub steps: u64,
    pub submitted: u64,
    pub claims: u64,
    pub completed: u64,
    pub failed: u64,
    pub canceled: u64,
    pub late: u64,
    pub repeated: u64,
    pub wakes: u64,
    pub callbacks: u64,
    pub notices: u64,
    pub answers: u64,
    pub judged: u64,
    pub failures: u64,
    pub restarts: u64,
    pub purged: u64,
    /// Actions that happened outside.
    pub acted: u64,
    /// Those that an attempt began and was told that nobody knows.
    pub unknown: u64,
    /// Questions of the hub about such ones.
    pub asked: u64,
    /// Files that attempts left.
    pub files: u64,
    /// Files that a retry has of the task that it repeats.
    pub shared: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.submitted += other.submitted;
        self.claims += other.claims;
        self.completed += other.completed;
        self.failed += other.failed;
        self.canceled += other.canceled;
        self.late += other.late;
        self.repeated += other.repeated;
        self.wakes += other.wakes;
        self.callbacks += other.callbacks;
        self.notices += other.notices;
        self.answers += other.answers;
        self.judged += other.judged;
        self.failures += other.failures;
        self.restarts += other.restarts;
        self.purged += other.purged;
        self.acted += other.acted;
        self.unknown += other.unknown;
        self.asked += other.asked;
        self.files += other.files;
        self.shared += other.shared;
    }
}
