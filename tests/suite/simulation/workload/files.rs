//! Files: what submitters give with a task, and what attempts leave with it.

use taskhub::domain::file::sha256_of;
use taskhub::hub::{FileRejected, InputFile, NewFile, attach, attachments};

use super::*;

/// Names that files have, and contents.
const NAMES: [&str; 3] = ["report.md", "table.csv", "picture.png"];
const CONTENTS: [&str; 4] = ["", "one", "two words", "something longer than that, for the sum of all"];

fn file(name: &str, content: &str) -> NewFile {
    NewFile { name: name.to_owned(), content_type: None, bytes: content.as_bytes().to_vec() }
}

impl Workload {
    /// Files for a new task: mostly none.
    pub(super) fn inputs(&mut self) -> Vec<InputFile> {
        if !self.chance.percent(12) {
            return vec![];
        }
        let count = 1 + self.chance.below(2) as usize;
        let one = |name: &&str| InputFile::Inline(file(name, self.chance.pick::<&str>(&CONTENTS)));
        NAMES.iter().take(count).map(one).collect()
    }

    /// What a task was given, by name and hash.
    pub(super) fn given(&mut self, id: &str, inputs: &[InputFile], retried: Option<&str>) {
        let shared = retried.map(|old| self.auditor.files.inputs(old)).unwrap_or_default();
        self.tally.shared += shared.len() as u64;
        let brought = inputs.iter().map(|input| match input {
            InputFile::Inline(file) => (file.name.clone(), sha256_of(&file.bytes)),
            InputFile::Uploaded { file_id } => panic!("{file_id} was never uploaded"),
        });
        let wanted: Vec<_> = shared.into_iter().chain(brought).collect();
        if wanted.is_empty() {
            return;
        }
        let found = self.command_without_failure(|hub| attachments(hub, id)).0.expect("the database works");
        self.auditor.files.given(id, wanted, &found);
    }

    /// An attempt leaves a file with its task, perhaps twice.
    pub(super) fn leave_file(&mut self, index: usize, held: Held) {
        let (name, content) = (*self.chance.pick(&NAMES), *self.chance.pick(&CONTENTS));
        self.attach(index, &held, name, content);
        if self.agents[index].temper == Temper::Doubling {
            self.attach(index, &held, name, content);
        }
        self.agents[index].held.push_back(held);
    }

    fn attach(&mut self, index: usize, held: &Held, name: &str, content: &str) {
        let executor = self.agents[index].row.name.clone();
        let (now, id) = (self.now.get(), held.task.clone());
        let brought = json!({ "name": name, "size": content.len() });
        let verdict = self.auditor.judge(&id, &executor, held.attempt, &Verb::Record, &brought.to_string(), now);
        let call = AttemptCall {
            executor: &executor,
            task_id: &held.task,
            claim_token: &held.token,
            verb: "attachment",
            brought: &brought,
        };
        let (answer, _) = self.command(|hub| attach(hub, &call, &file(name, content)));
        self.note(|| {
            let attempt = held.attempt;
            format!("{id}: {name} by {executor} in attempt {attempt}: the model says {verdict:?}, the hub {answer:?}")
        });
        match (verdict, answer) {
            (_, Err(FileRejected::Database(error))) => {
                self.failure(&error);
                if self.auditor.tasks.contains_key(&id) {
                    self.check(&id);
                }
                return;
            }
            (Verdict::Accepted, Ok(file)) => {
                self.auditor.files.left(&id, name, content, &file);
                self.tally.files += 1;
            }
            (Verdict::LeaseLost, Err(FileRejected::Attempt(AttemptRejected::LeaseLost { .. })))
            | (Verdict::Canceled, Err(FileRejected::Attempt(AttemptRejected::Canceled)))
            | (Verdict::AlreadyFinished, Err(FileRejected::Attempt(AttemptRejected::AlreadyFinished))) => {
                self.tally.late += 1;
            }
            (Verdict::NotWorking, Err(FileRejected::Attempt(AttemptRejected::NotWorking))) => {}
            (Verdict::TaskNotFound, Err(FileRejected::Attempt(AttemptRejected::TaskNotFound))) => return,
            (expected, got) => panic!("{id}: a file must be {expected:?}, the hub says {got:?}"),
        }
        self.check(&id);
    }
}
