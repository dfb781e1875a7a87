//! Scopes: what a client may do on the owner's behalf (design §6).
//!
//! Invariant: `hub:admin` includes `tasks:write`, which includes `tasks:read`; `tasks:execute` stands alone, and says
//! nothing without the executor for which it was granted.

use std::fmt;

/// One scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `tasks:read`: see tasks, executors and the hub's state.
    TasksRead,
    /// `tasks:write`: submit, answer, cancel and retry tasks, wake executors.
    TasksWrite,
    /// `tasks:execute`: work on tasks as one named executor.
    TasksExecute,
    /// `hub:admin`: the owner API.
    HubAdmin,
}

impl Scope {
    /// Every scope, the weakest first.
    pub const ALL: [Self; 4] = [Self::TasksRead, Self::TasksWrite, Self::TasksExecute, Self::HubAdmin];

    /// The scope's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::TasksRead => "tasks:read",
            Self::TasksWrite => "tasks:write",
            Self::TasksExecute => "tasks:execute",
            Self::HubAdmin => "hub:admin",
        }
    }

    /// The scope of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    fn bit(self) -> u8 {
        match self {
            Self::TasksRead => 1,
            Self::TasksWrite => 2,
            Self::TasksExecute => 4,
            Self::HubAdmin => 8,
        }
    }

    /// The scope with all that it includes.
    fn reach(self) -> u8 {
        match self {
            Self::TasksRead => 1,
            Self::TasksWrite => 2 | 1,
            Self::TasksExecute => 4,
            Self::HubAdmin => 8 | 2 | 1,
        }
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// What a client is offered that asks for nothing in particular: reading and writing tasks.
    pub const USUAL: Self = Self(1 | 2);
    /// What the owner's static token may do: everything but working as an executor.
    pub const OWNER: Self = Self(1 | 2 | 8);

    /// The scopes of a space-separated list. Names that mean nothing here are dropped: clients send such (`claudeai`).
    pub fn parse(list: &str) -> Self {
        list.split_ascii_whitespace().filter_map(Scope::parse).fold(Self::NONE, Self::with)
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// These without that one.
    #[must_use]
    pub fn without(self, scope: Scope) -> Self {
        Self(self.0 & !scope.bit())
    }

    /// Whether this very scope is among them.
    pub fn names(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether they permit it, by itself or by one that includes it.
    pub fn permit(self, scope: Scope) -> bool {
        self.iter().any(|held| held.reach() & scope.bit() != 0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes, the weakest first.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.names(*scope))
    }
}

/// Space-separated, as on the wire.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope.name())?;
        }
        Ok(())
    }
}
