//! How long things wait before they are tried again.

use crate::faults::{self, Fault};

/// Waits between wakes that were not accepted: 1 min, 5 min, 15 min, then 1 h (design §7).
const WAKE_BACKOFF_MS: [i64; 4] = [60_000, 300_000, 900_000, 3_600_000];
/// Waits between tries of any other message: 30 s, 2 min, 10 min, 30 min, then 2 h.
const SEND_BACKOFF_MS: [i64; 5] = [30_000, 120_000, 600_000, 1_800_000, 7_200_000];
/// The first wait after a retryable failure; it doubles with every further failure.
const FAILURE_BACKOFF_MS: i64 = 15_000;
/// The longest wait after a retryable failure.
const FAILURE_BACKOFF_MS_MAX: i64 = 3_600_000;

/// The wait after the `attempts`-th wake in a row that was not accepted (1 is the first).
pub fn wake_backoff_ms(attempts: u32) -> i64 {
    let index = (attempts.max(1) as usize - 1).min(WAKE_BACKOFF_MS.len() - 1);
    WAKE_BACKOFF_MS[index]
}

/// The wait after the `attempts`-th try of a message that did not get there (1 is the first), and up to a fifth more by
/// `jitter` (0 to 255), so that messages that failed together do not come back together.
pub fn send_backoff_ms(attempts: u32, jitter: u8) -> i64 {
    let index = (attempts.max(1) as usize - 1).min(SEND_BACKOFF_MS.len() - 1);
    spread(SEND_BACKOFF_MS[index], jitter)
}

/// The wait after the `failures`-th retryable failure (1 is the first): 15 s, 30 s, 1 min … 1 h, and up to a fifth more
/// by `jitter` (0 to 255), so that tasks that failed together do not come back together.
pub fn failure_backoff_ms(failures: u32, jitter: u8) -> i64 {
    let doublings = failures.clamp(1, 20) - 1;
    let wait_max = if faults::is_on(Fault::BackoffZero) { 0 } else { FAILURE_BACKOFF_MS_MAX };
    let wait = (FAILURE_BACKOFF_MS << doublings).min(wait_max);
    spread(wait, jitter)
}

fn spread(wait: i64, jitter: u8) -> i64 {
    wait + wait * i64::from(jitter) / (5 * 256)
}
