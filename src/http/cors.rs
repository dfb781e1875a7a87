//! (placeholder by the lead so that the tree compiles; helper MCP replaces this file)
use super::message::{Request, Response};
/// placeholder
pub fn preflight(_request: &Request) -> Option<Response> {
    None
}
/// placeholder
pub fn decorate(_request: &Request, response: Response) -> Response {
    response
}
/// placeholder
pub fn refuse_origin(_request: &Request) -> Option<Response> {
    None
}
