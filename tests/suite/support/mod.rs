//! What the native tests stand on: a database that behaves like the object's, and a hub around it with a clock that the
//! test moves.

mod native;
mod world;

pub use native::NativeDatabase;
pub use world::{World, settings};
