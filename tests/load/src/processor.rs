//! What the system says about processor time. 0 where it cannot be read, which is everywhere but on Linux.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Processor time that a process has spent so far, over all its threads, in nanoseconds.
pub fn spent_ns(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    threads.flatten().map(|thread| field(&thread.path().join("schedstat"), 0)).sum()
}

/// How long the first thread of a process, and the calling thread, have stood in line for a processor so far.
pub fn delayed(pid: u32) -> Duration {
    let server = field(Path::new(&format!("/proc/{pid}/schedstat")), 1);
    let here = field(Path::new("/proc/thread-self/schedstat"), 1);
    Duration::from_nanos(server + here)
}

fn field(path: &Path, index: usize) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().nth(index).and_then(|text| text.parse().ok()).unwrap_or_default()
}
