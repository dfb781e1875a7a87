//! The project's own files, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under this directory, by its path from the root, with its text.
pub fn rust_sources(directory: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut directories = vec![root().join(directory)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the directory can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(read(path));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{directory} has Rust files");
    found
}

fn read(path: PathBuf) -> (String, String) {
    let text = fs::read_to_string(&path).expect("a source can be read");
    let from_root = path.strip_prefix(root()).expect("it lies under the root");
    (from_root.to_str().expect("paths are UTF-8").to_owned(), text)
}
