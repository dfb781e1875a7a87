//! Golden files: what the code produces is compared with a file in the tree. `UPDATE=1` writes the file anew.

use std::fs;
use std::path::Path;

/// Compares `produced` with the file at this path from the root of the repository.
pub fn check_golden(path: &str, produced: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().expect("a golden file lies in a directory")).expect("it can be made");
        fs::write(&file, produced).expect("a golden file can be written");
        return;
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    if kept != produced {
        let line = kept.lines().zip(produced.lines()).take_while(|(old, new)| old == new).count() + 1;
        panic!(
            "{path} differs from what the code produces, first in line {line}:\n- {}\n+ {}\n\
             Look at the difference; if it is meant, run the tests once with UPDATE=1.",
            kept.lines().nth(line - 1).unwrap_or("(end)"),
            produced.lines().nth(line - 1).unwrap_or("(end)"),
        );
    }
}
