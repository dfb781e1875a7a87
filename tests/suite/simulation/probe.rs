//! Calls the store as a caller would who skips the lifecycle: with what was read before something else happened. Each call
//! is wrong in one thing only, so each part of each WHERE is shown to count. Nothing of it stays.

use taskhub::domain::task::{Lane, Life, State};
use taskhub::store::database::{Database, DatabaseError};
use taskhub::store::tasks::{
    AttemptWrites, MoveWrites, TaskHead, WakeDue, beside, claim, finish, head, move_on, renew, wake,
};

const WRONG_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Writes to this task, as it stands, with every reading that is wrong in one thing.
pub fn write_under_stale_claims(db: &dyn Database, id: &str, now: i64) {
    let undone = db.atomically(&mut || {
        if let Some(task) = head(db, id)? {
            Probe { db, task: &task, now }.all()?;
        }
        Err(DatabaseError::Refused("a probe leaves nothing".to_owned()))
    });
    assert_eq!(undone, Err(DatabaseError::Refused("a probe leaves nothing".to_owned())), "{id} cannot be probed");
}

struct Probe<'p> {
    db: &'p dyn Database,
    task: &'p TaskHead,
    now: i64,
}

type Written = Result<bool, DatabaseError>;

impl Probe<'_> {
    fn all(&self) -> Result<(), DatabaseError> {
        self.refused("the clock", "attempt", self.moved_on(&self.earlier()))?;
        self.refused("the clock", "state", self.moved_on(&self.elsewhere()))?;
        match self.task.life.state.lane() {
            Some(Lane::Held) => self.held(),
            Some(Lane::Ready) => self.ready(),
            Some(Lane::Waiting) | None => Ok(()),
        }
    }

    fn held(&self) -> Result<(), DatabaseError> {
        let life = &self.task.life;
        let hash = life.claim.as_ref().map(|claim| claim.token_hash.clone()).unwrap_or_default();
        let end = life.lease_expires_at.or(life.input_expires_at).unwrap_or_default();
        let in_time = self.now.min(end - 1);
        let other_lease = Life { lease_expires_at: Some(life.lease_expires_at.map_or(1, |at| at - 1)), ..life.clone() };
        self.refused("an end", "attempt", self.finished(&self.earlier(), &hash, in_time))?;
        self.refused("an end", "state", self.finished(&self.elsewhere(), &hash, in_time))?;
        self.refused("an end", "lease", self.finished(&other_lease, &hash, in_time))?;
        self.refused("an end", "token", self.finished(life, WRONG_HASH, in_time))?;
        self.refused("an end", "time", self.finished(life, &hash, end))?;
        self.taken("an end", self.finished(life, &hash, in_time))?;
        if life.state == State::Working {
            self.refused("a heartbeat", "attempt", self.renewed(&self.earlier(), &hash, in_time))?;
            self.refused("a heartbeat", "token", self.renewed(life, WRONG_HASH, in_time))?;
            self.refused("a heartbeat", "time", self.renewed(life, &hash, end))?;
            self.taken("a heartbeat", self.renewed(life, &hash, in_time))?;
            self.refused("a record", "attempt", self.recorded(&self.earlier(), &hash, in_time))?;
            self.refused("a record", "token", self.recorded(life, WRONG_HASH, in_time))?;
            self.refused("a record", "time", self.recorded(life, &hash, end))?;
            self.taken("a record", self.recorded(life, &hash, in_time))?;
        } else {
            self.refused("a record", "state", self.recorded(life, &hash, in_time))?;
        }
        Ok(())
    }

    fn ready(&self) -> Result<(), DatabaseError> {
        self.refused("a claim", "attempt", self.claimed(&self.earlier()))?;
        self.refused("a claim", "state", self.claimed(&self.elsewhere()))?;
        self.taken("a claim", self.claimed(&self.task.life))?;
        self.refused("a wake", "attempt", self.woken(&self.earlier()))?;
        self.refused("a wake", "state", self.woken(&self.elsewhere()))?;
        self.taken("a wake", self.woken(&self.task.life))
    }

    /// As it was read an attempt before.
    fn earlier(&self) -> Life {
        Life { attempt: self.task.life.attempt + 1, ..self.task.life.clone() }
    }

    /// As it was read in another state.
    fn elsewhere(&self) -> Life {
        let state = match self.task.life.state {
            State::Working => State::InputRequired,
            State::InputRequired => State::Working,
            State::Submitted => State::Dispatched,
            _ => State::Submitted,
        };
        Life { state, ..self.task.life.clone() }
    }

    fn read_as(&self, life: &Life) -> TaskHead {
        TaskHead { life: life.clone(), ..self.task.clone() }
    }

    fn moved_on(&self, life: &Life) -> Written {
        let Self { db, task, now } = *self;
        move_on(db, &self.read_as(life), &task.life, task.due_at, task.event_seq, now, MoveWrites::default())
            .map(|it| it.is_some())
    }

    fn finished(&self, life: &Life, hash: &str, now: i64) -> Written {
        let Self { db, task, .. } = *self;
        let writes = (hash, &AttemptWrites::default());
        finish(db, &self.read_as(life), &task.life, task.due_at, task.event_seq, now, writes).map(|it| it.is_some())
    }

    fn renewed(&self, life: &Life, hash: &str, now: i64) -> Written {
        renew(self.db, &self.task.id, life, now, (hash, &AttemptWrites::default()))
    }

    fn recorded(&self, life: &Life, hash: &str, now: i64) -> Written {
        beside(self.db, &self.read_as(life), hash, self.task.event_seq, now)
    }

    fn claimed(&self, life: &Life) -> Written {
        let Self { db, task, now } = *self;
        let in_time = task.life.deadline_at.map_or(now, |at| now.min(at - 1));
        claim(db, &self.read_as(life), &task.life, task.due_at, task.event_seq, in_time).map(|full| full.is_some())
    }

    fn woken(&self, life: &Life) -> Written {
        let Self { db, task, now } = *self;
        wake(db, &self.read_as(life), &task.life, WakeDue::Stays, task.event_seq, now).map(|it| it.is_some())
    }

    fn refused(&self, call: &str, wrong: &str, written: Written) -> Result<(), DatabaseError> {
        assert!(!written?, "{}: {call} with a wrong {wrong} wrote under a stale claim", self.task.id);
        Ok(())
    }

    fn taken(&self, call: &str, written: Written) -> Result<(), DatabaseError> {
        assert!(written?, "{}: {call} was refused though everything about it is right", self.task.id);
        Ok(())
    }
}
