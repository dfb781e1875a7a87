//! (placeholder by the lead so that the tree compiles; helper MCP replaces this file)
/// placeholder
pub fn handle(
    _hub: &crate::hub::Hub<'_>,
    _request: &crate::http::message::Request,
    _submitter: &str,
) -> crate::http::message::Outcome {
    crate::http::message::Outcome::Reply(crate::http::message::Response::empty(501))
}
