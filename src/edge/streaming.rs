//! Bodies that are too large for memory: uploads that come in, and files that go out.
//!
//! Invariants: of an upload one piece is in memory, whatever its length, and each is a turn of its own; of a file that goes out
//! no more than what the client is about to take. Of all that come in there are `PIECES_HELD_MAX` pieces at most, and as many of
//! all that go out, however many clients are slow. Bytes that go out never enter this module.

use std::rc::Rc;

use js_sys::Uint8Array;
use js_sys::futures::JsFuture;
use wasm_bindgen::prelude::*;
use worker::{console_error, web_sys};

use super::glue::Intake;
use super::object::{Object, with_rows};
use super::{convert, problems};
use crate::domain::file::Piece;
use crate::domain::limits::{
    CHUNK_BYTES, PIECES_HELD_MAX, UNREAD_BYTES_MAX, UNREAD_MS, UPLOAD_PIECE_MS, UPLOAD_STALL_MS,
};
use crate::http::message::{Outcome, Received, Request, Response};
use crate::store::database::RowsUsed;

/// The word for a body that stands still (`Intake.next`).
const STALLED: &str = "stalled";

/// Lets the handler take the body of an upload, piece by piece, until it replies. How many that can be is the handler's to
/// bound.
pub async fn take_in(object: &Rc<Object>, web_request: &web_sys::Request, mut request: Request) -> JsValue {
    let intake = Intake::new(web_request, CHUNK_BYTES as u32, PIECES_HELD_MAX, stall_ms(&request), UPLOAD_PIECE_MS);
    let mut spent = RowsUsed::default();
    loop {
        let response = match object.turn(&request, &mut spent) {
            Outcome::Receive(so_far) => {
                let piece = next_piece(&intake).await;
                request.received = Some(Received { so_far, piece });
                continue;
            }
            Outcome::Reply(response) => response,
            other => {
                console_error!("an upload is not answered but with {other:?}");
                problems::internal()
            }
        };
        let Response { status, body, .. } = &response;
        let headers = convert::lines(&with_rows(response.clone(), spent));
        return convert::taken(intake.answer(*status, &headers, body, UNREAD_BYTES_MAX, UNREAD_MS));
    }
}

fn stall_ms(request: &Request) -> u32 {
    #[cfg(feature = "test-hooks")]
    if let Some(ms) = super::test_routes::stall_of(request) {
        return ms;
    }
    let _ = request;
    UPLOAD_STALL_MS
}

async fn next_piece(intake: &Intake) -> Piece {
    let came = JsFuture::from(intake.next()).await.unwrap_or(JsValue::UNDEFINED);
    match came.dyn_into::<Uint8Array>() {
        Ok(bytes) => {
            let bytes = bytes.to_vec();
            let is_last = bytes.len() < CHUNK_BYTES;
            Piece::Bytes { bytes, is_last }
        }
        Err(word) if word.as_string().as_deref() == Some(STALLED) => Piece::Stalled,
        Err(_) => Piece::Broken,
    }
}
