//! `GET /executor/listen`: an executor that cannot be called, because it is behind NAT or asleep on nobody's list, holds a
//! socket open and is told when there is work (design §4).

use super::handlers;
use crate::domain::task::Address;
use crate::http::message::{Outcome, Request};
use crate::http::problem::storage_failed;
use crate::http::socket::{self, Socket};
use crate::hub::{self, Hub};
use crate::store::database::DatabaseError;
use crate::store::executors::ExecutorRow;

/// Answers the request for the socket.
pub fn listen(hub: &Hub<'_>, request: &Request) -> Outcome {
    let executor = match handlers::caller(hub, request) {
        Ok(executor) => executor,
        Err(refusal) => return Outcome::Reply(refusal),
    };
    if let Some(refusal) = socket::refuse(request) {
        return Outcome::Reply(refusal);
    }
    match wanted(hub, &executor) {
        Ok(socket) => Outcome::Upgrade(socket),
        Err(error) => Outcome::Reply(storage_failed(error.failure()).response()),
    }
}

fn wanted(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<Socket, DatabaseError> {
    let own = Address::Executor(executor.name.clone()).to_string();
    let addresses: Vec<String> = std::iter::once(own).chain(executor.queues.iter().cloned()).collect();
    // One that is paused would find nothing; it is told when it is resumed.
    let is_ready = executor.is_at_work() && hub::is_work_ready(hub, &addresses)?;
    Ok(Socket::Listen { executor: executor.name.clone(), addresses, is_ready })
}
