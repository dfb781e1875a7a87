//! What the native tests stand on: a database that behaves like the object's, a hub around it with a clock that the test
//! moves, and the moves of those around the hub.

mod golden;
mod moves;
mod native;
mod sources;
mod world;

pub use golden::check_golden;
pub use moves::{Held, held, task_for, task_in};
pub use native::NativeDatabase;
pub use sources::{root, rust_sources};
pub use world::{OWNER_TOKEN, World, request, settings};
