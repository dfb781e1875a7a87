//! What submitters and the owner do, and what must come of it.

use super::*;

impl Workload {
    pub(super) fn submit(&mut self) {
        if self.auditor.open.len() >= OPEN_MAX {
            return;
        }
        if self.chance.percent(15) && !self.submits.is_empty() {
            return self.submit_again();
        }
        if self.chance.percent(60) {
            let queue = (*self.chance.pick(&QUEUES)).to_owned();
            self.submit_to(None, Some(queue));
        } else {
            let executor = self.chance.pick(&self.agents).row.name.clone();
            self.submit_to(Some(executor), None);
        }
    }

    pub(super) fn submit_to(&mut self, executor: Option<String>, queue: Option<String>) {
        self.counter += 1;
        let input = Submit {
            submitter: (*self.chance.pick(&["owner", "claude"])).to_owned(),
            title: format!("task {}", self.counter),
            instructions: "do it".to_owned(),
            executor,
            queue,
            priority: self.chance.percent(30).then(|| self.chance.below(10) as u8),
            deadline: self.chance.percent(20).then(|| When::In(1 + self.chance.below(3_000) as i64)),
            not_before: None,
            idempotency_key: self.chance.percent(70).then(|| format!("key-{}", self.counter)),
            max_attempts: self.chance.percent(30).then(|| 1 + self.chance.below(3) as u32),
            on_unknown_action: self.chance.percent(40).then_some(OnUnknownAction::Ask),
            callback_url: self.chance.percent(10).then(|| "https://submitter.example/told".to_owned()),
            inputs: self.inputs(),
            ..Submit::default()
        };
        let delay = self.chance.percent(10) && input.deadline.is_none();
        let not_before = delay.then(|| When::In(1 + self.chance.below(900) as i64));
        let input = Submit { not_before, ..input };
        let (answer, effects) = self.command(|hub| submit(hub, &input));
        match answer {
            Ok(submitted) => {
                assert!(!submitted.existed, "{} existed before it was submitted", submitted.id);
                self.born(&submitted.id, &input, &effects);
                self.submits.push_back((input, submitted.id.clone()));
                self.submits.truncate(50);
            }
            Err(SubmitRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("a right submission was refused: {other:?}"),
        }
    }

    pub(super) fn born(&mut self, id: &str, input: &Submit, effects: &Effects) {
        let now = self.now.get();
        let at = |when: Option<When>| match when {
            Some(When::In(seconds)) => Some(now + seconds * 1000),
            Some(When::At(at)) => Some(at),
            None => None,
        };
        let address = match (&input.executor, &input.queue) {
            (Some(name), _) => format!("@{name}"),
            (None, Some(queue)) => queue.clone(),
            (None, None) => unreachable!("every task has an address"),
        };
        let is_asked = self
            .agents
            .iter()
            .any(|agent| agent.temper == Temper::Asked && input.executor.as_ref() == Some(&agent.row.name));
        let not_before = at(input.not_before);
        let known = Known {
            standing: match not_before {
                _ if is_asked => Standing::Approval(not_before),
                Some(at) => Standing::Waiting(at),
                None => Standing::Ready,
            },
            address: address.clone(),
            priority: input.priority.unwrap_or(5),
            attempt: 0,
            failures: 0,
            max_attempts: input.max_attempts.unwrap_or(3),
            deadline_at: at(input.deadline),
            holder: None,
            ends: Vec::new(),
            result: None,
            completed_at: None,
            callback: input.callback_url.is_some(),
            asks: input.on_unknown_action == Some(OnUnknownAction::Ask),
        };
        self.note(|| {
            let Known { address, standing, max_attempts, deadline_at, .. } = &known;
            let deadline = deadline_at.map_or(String::new(), |at| format!(", deadline in {} ms", at - now));
            format!("{id} submitted to {address}: {standing:?}, {max_attempts} attempts at most{deadline}")
        });
        self.woken(id, &address, known.standing == Standing::Ready, effects);
        self.auditor.submitted(id, known);
        self.given(id, &input.inputs, input.retry_of.as_deref());
        self.tally.submitted += 1;
        self.check(id);
    }

    /// The answer to a submission was lost, or the button was pressed twice.
    pub(super) fn submit_again(&mut self) {
        let index = self.chance.below(self.submits.len() as u64) as usize;
        let (mut input, id) = self.submits[index].clone();
        if input.idempotency_key.is_none() || !self.auditor.tasks.contains_key(&id) {
            return;
        }
        let differs = self.chance.percent(20);
        let elsewhere = !differs && self.chance.percent(20);
        if differs {
            input.title.push('!');
        }
        if elsewhere {
            // Another submitter's key of the same name is another key.
            input.submitter = format!("submitter-{}", self.tally.steps);
        }
        let (answer, effects) = self.command(|hub| submit(hub, &input));
        match answer {
            Ok(submitted) if elsewhere => {
                assert_ne!(submitted.id, id, "a key is scoped by its submitter");
                self.born(&submitted.id, &input, &effects);
            }
            Ok(submitted) => {
                assert!(!differs, "{id} was returned for another body");
                assert!(submitted.existed && submitted.id == id, "{id} was submitted twice");
                self.check(&id);
            }
            Err(SubmitRejected::IdempotencyConflict { task_id }) => assert!(differs && task_id == id),
            Err(SubmitRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("a repeated submission was refused: {other:?}"),
        }
    }

    pub(super) fn some_task(&self, among_open: bool) -> Option<String> {
        if among_open {
            let open: Vec<&String> = self.auditor.open.iter().collect();
            return (!open.is_empty()).then(|| (*self.chance.pick(&open)).clone());
        }
        let newest: Vec<&String> = self.auditor.tasks.keys().rev().take(40).collect();
        (!newest.is_empty()).then(|| (*self.chance.pick(&newest)).clone())
    }

    pub(super) fn cancel(&mut self) {
        let Some(id) = self.some_task(self.chance.percent(80)) else { return };
        let over = self.auditor.tasks[&id].standing.clone();
        let (answer, _) = self.command(|hub| cancel(hub, "owner", &id, Some("no longer wanted")));
        self.note(|| format!("{id} canceled: {answer:?}"));
        match answer {
            Ok(canceled) if canceled.already => assert_eq!(over, Standing::Canceled, "{id} was not canceled before"),
            Ok(_) => {
                self.auditor.canceled(&id, self.now.get());
                self.tally.canceled += 1;
            }
            Err(CancelRejected::AlreadyFinished { .. }) => assert!(over.is_over(), "{id} is not over"),
            Err(CancelRejected::Database(error)) => self.failure(&error),
            Err(CancelRejected::TaskNotFound) => panic!("{id} was acknowledged and is lost"),
        }
        self.check(&id);
    }

    pub(super) fn answer(&mut self) {
        let asking: Vec<&String> = self
            .auditor
            .open
            .iter()
            .filter(|id| matches!(self.auditor.tasks[*id].standing, Standing::Input { .. } | Standing::Asked(_)))
            .collect();
        let Some(id) =
            (if asking.is_empty() { self.some_task(true) } else { Some((*self.chance.pick(&asking)).clone()) })
        else {
            return;
        };
        self.counter += 1;
        let input = Answer { submitter: "owner".into(), task_id: id.clone(), text: format!("answer {}", self.counter) };
        let (answer, effects) = self.command(|hub| answer(hub, &input));
        self.note(|| format!("{id} answered: {answer:?}"));
        let asked = matches!(self.auditor.tasks[&id].standing, Standing::Input { .. } | Standing::Asked(_));
        match answer {
            Ok(_) => {
                assert!(asked, "{id} was answered and had not asked");
                self.auditor.answered(&id, self.now.get());
                let known = &self.auditor.tasks[&id];
                let (address, is_ready) = (known.address.clone(), known.standing == Standing::Ready);
                self.woken(&id, &address, is_ready, &effects);
                self.tally.answers += 1;
            }
            Err(AnswerRejected::NotAsked { .. }) => assert!(!asked, "{id} asked, and its answer was refused"),
            Err(AnswerRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("{id}: a right answer was refused: {other:?}"),
        }
        self.check(&id);
    }

    /// The owner judges a task that waits for that, or, sometimes, another one, for which that is nothing. Whether one waited.
    pub(super) fn judge(&mut self, by_chance: bool) -> bool {
        let waits = |id: &&String| matches!(self.auditor.tasks[*id].standing, Standing::Approval(_));
        let waiting: Vec<&String> = self.auditor.open.iter().filter(waits).collect();
        let id = match waiting.is_empty() {
            true if by_chance => self.some_task(false),
            true => None,
            false => Some((*self.chance.pick(&waiting)).clone()),
        };
        let Some(id) = id else { return false };
        let approves = !by_chance || self.chance.percent(70);
        let input = Approve { submitter: "owner".into(), task_id: id.clone(), approve: approves, note: None };
        let (answer, effects) = self.command(|hub| approve(hub, &input));
        self.note(|| format!("{id} judged: {answer:?}"));
        let before = self.auditor.tasks[&id].standing.clone();
        let waited = matches!(before, Standing::Approval(_));
        match answer {
            Ok(approved) if approved.already => assert!(!waited, "{id} was not judged before"),
            Ok(_) => {
                self.auditor.judged(&id, approves, self.now.get());
                let known = &self.auditor.tasks[&id];
                let (address, is_ready) = (known.address.clone(), known.standing == Standing::Ready);
                self.woken(&id, &address, is_ready, &effects);
                self.tally.judged += 1;
            }
            Err(ApproveRejected::Database(error)) => self.failure(&error),
            Err(ApproveRejected::DeniedBefore) => assert_eq!(before, Standing::Failed("denied"), "{id} was not denied"),
            Err(ApproveRejected::ApprovedBefore { .. } | ApproveRejected::NotAwaited { .. }) => {
                assert!(!waited, "{id} waits for a word, and that was refused");
            }
            Err(other) => panic!("{id}: a right word was refused: {other:?}"),
        }
        self.check(&id);
        waited
    }

    pub(super) fn retry(&mut self) {
        let Some(id) = self.some_task(false) else { return };
        if self.auditor.open.len() >= OPEN_MAX {
            return;
        }
        let old = self.auditor.tasks[&id].clone();
        let (answer, effects) = self.command(|hub| retry_task(hub, "owner", &id));
        match answer {
            Ok(submitted) if submitted.existed => {}
            Ok(submitted) => {
                assert!(old.standing.is_over(), "{id} is retried and not over");
                let (executor, queue) = match old.address.strip_prefix('@') {
                    Some(name) => (Some(name.to_owned()), None),
                    None => (None, Some(old.address.clone())),
                };
                let input = Submit {
                    executor,
                    queue,
                    priority: Some(old.priority),
                    max_attempts: Some(old.max_attempts),
                    on_unknown_action: old.asks.then_some(OnUnknownAction::Ask),
                    callback_url: old.callback.then(|| "https://submitter.example/told".to_owned()),
                    retry_of: Some(id.clone()),
                    ..Submit::default()
                };
                self.born(&submitted.id, &input, &effects);
            }
            Err(RetryRejected::NotFinished { .. }) => assert!(!old.standing.is_over(), "{id} is over"),
            Err(RetryRejected::Database(error) | RetryRejected::Submit(SubmitRejected::Database(error))) => {
                self.failure(&error);
            }
            Err(other) => panic!("{id}: a right retry was refused: {other:?}"),
        }
    }

    pub(super) fn wake_executor(&mut self) {
        let name = self.chance.pick(&self.agents).row.name.clone();
        let (answer, effects) = self.command(|hub| wake_executor(hub, &name, None));
        if answer.is_ok() {
            self.ordered(&effects, true);
        }
    }
}
