//! A simple model of the files of tasks: what submitters give and attempts leave, and which of them are one content.

use std::collections::BTreeMap;

use taskhub::domain::file::{FileKind, sha256_of};
use taskhub::hub::FileView;
use taskhub::store::database::Value;

use crate::support::NativeDatabase;

const OF_TASKS: &str = "SELECT task_id, id, kind, name, sha256 FROM attachments WHERE state = 'stored' ORDER BY id";
const TOTALS: &str = "SELECT files, bytes FROM attachment_totals";
const COUNTED: &str = "SELECT count(*), coalesce((SELECT sum(size) FROM (
  SELECT DISTINCT content_id, size FROM attachments WHERE state = 'stored')), 0) FROM attachments WHERE state = 'stored'";
const BYTELESS: &str = "SELECT id FROM attachments a WHERE state = 'stored' AND size <> coalesce(
  (SELECT sum(length(bytes)) FROM attachment_chunks c WHERE c.content_id = a.content_id), 0)";
const NAMELESS: &str = "SELECT content_id FROM attachment_chunks c
  WHERE NOT EXISTS (SELECT 1 FROM attachments a WHERE a.content_id = c.content_id)";
const HOMELESS: &str = "SELECT id FROM attachments a WHERE task_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = a.task_id)";

/// A file that a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    is_input: bool,
    name: String,
    sha256: String,
}

/// The files of all tasks, by task and id.
#[derive(Default)]
pub struct Files {
    kept: BTreeMap<String, BTreeMap<String, Kept>>,
}

impl Files {
    /// An attempt left this file: the first of its name and content is kept, and answered again.
    pub fn left(&mut self, task: &str, name: &str, content: &str, file: &FileView) {
        let sha256 = sha256_of(content.as_bytes());
        assert_eq!((file.name.as_str(), &file.sha256), (name, &sha256), "{task}: a file is not what was attached");
        let kept = self.kept.entry(task.to_owned()).or_default();
        let file_of = Kept { is_input: false, name: name.to_owned(), sha256 };
        match kept.iter().find(|(_, known)| **known == file_of) {
            Some((id, _)) => assert_eq!(id, &file.id, "{task}: the same file was attached as two"),
            None => {
                assert!(!kept.contains_key(&file.id), "{task}: two files are one");
                kept.insert(file.id.clone(), file_of);
            }
        }
    }

    /// The inputs of a task, by name and hash.
    pub fn inputs(&self, task: &str) -> Vec<(String, String)> {
        let kept = self.kept.get(task).into_iter().flat_map(BTreeMap::values);
        let mut inputs: Vec<_> =
            kept.filter(|file| file.is_input).map(|file| (file.name.clone(), file.sha256.clone())).collect();
        inputs.sort();
        inputs
    }

    /// A task was made with these inputs.
    pub fn given(&mut self, task: &str, mut wanted: Vec<(String, String)>, found: &[FileView]) {
        let mut names: Vec<_> = found.iter().map(|file| (file.name.clone(), file.sha256.clone())).collect();
        names.sort();
        wanted.sort();
        assert_eq!(names, wanted, "{task} has other files (left) than it was given (right)");
        let kept = self.kept.entry(task.to_owned()).or_default();
        for file in found {
            assert!(file.kind == FileKind::Input, "{task} has other files than it was given");
            kept.insert(file.id.clone(), Kept { is_input: true, name: file.name.clone(), sha256: file.sha256.clone() });
        }
    }

    /// Forgets the tasks that are not kept.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.kept.retain(|id, _| is_kept(id));
    }

    /// Compares all with the rows: no file is lost or made up, none outlives its task, and the totals are what is there.
    pub fn check_all(&self, db: &NativeDatabase) {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            other => panic!("a column of a file is {other:?}"),
        };
        let mut found: BTreeMap<String, BTreeMap<String, Kept>> = BTreeMap::new();
        for row in db.rows(OF_TASKS) {
            let [task, id, kind, name, sha256] = row.as_slice() else { panic!("a file has other columns: {row:?}") };
            let kept = Kept { is_input: text(kind) == "input", name: text(name), sha256: text(sha256) };
            found.entry(text(task)).or_default().insert(text(id), kept);
        }
        for (task, kept) in self.kept.iter().filter(|(_, kept)| !kept.is_empty()) {
            assert_eq!(found.get(task), Some(kept), "{task} has other files (left) than were taken (right)");
        }
        assert_eq!(db.rows(TOTALS), db.rows(COUNTED), "the totals (left) are not those of the files (right)");
        for (rows, what) in [
            (BYTELESS, "a file has other bytes than it says"),
            (NAMELESS, "bytes are kept of no file"),
            (HOMELESS, "a file outlives its task"),
        ] {
            let wrong = db.rows(rows);
            assert!(wrong.is_empty(), "{what}: {wrong:?}");
        }
    }
}
