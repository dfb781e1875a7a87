//! The functions of `glue.js`, and SQL values in their JSON.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use wasm_bindgen::prelude::*;
use worker::js_sys::{ArrayBuffer, JsString, Promise};
use worker::{Env, web_sys};

use crate::store::database::{INTEGER_MAX, Value};

/// Answers a request for which the object has no response: its body, the deadline, the kind of trouble, and the runtime's
/// words for it.
pub type Trouble = dyn Fn(Env, web_sys::Request, Option<ArrayBuffer>, f64, String, String) -> JsValue;

/// Answers a request by its body, or lets it pass to the object: undefined.
pub type Look = dyn Fn(Env, web_sys::Request, Vec<u8>) -> JsValue;

/// Answers a request in the object, with a response or the promise of one: its head and its body, or whether that is unread.
pub type Answer = dyn Fn(web_sys::Request, String, Option<Vec<u8>>, bool) -> JsValue;

#[wasm_bindgen(module = "/src/edge/glue.js")]
extern "C" {
    /// Method, address, then name and value of every header: one a line.
    pub fn head(request: &web_sys::Request) -> String;

    /// Sends a request of the hub's own to the object; the promise is of its response.
    #[wasm_bindgen(catch)]
    pub fn knock(env: &JsValue, url: &str) -> Result<Promise, JsValue>;

    /// Asks the object; the promise is of its response.
    #[wasm_bindgen(catch)]
    pub fn ask(env: &JsValue, request: &web_sys::Request, body: &ArrayBuffer) -> Result<Promise, JsValue>;

    /// Reads a request and asks the object once, for `limit` milliseconds at most; what goes wrong is for `trouble` to answer,
    /// and so is for `look` what a body shows. Never rejects by itself.
    pub fn forward(
        env: &JsValue,
        request: &web_sys::Request,
        has_length: bool,
        bytes_max: u32,
        limit: f64,
        trouble: &Closure<Trouble>,
        look: Option<&Closure<Look>>,
    ) -> Promise;

    /// Hands an upload on to the object. Never rejects by itself.
    pub fn pass(env: &JsValue, request: &web_sys::Request, limit: f64, trouble: &Closure<Trouble>) -> Promise;

    /// Reads a request that reached the object and lets `answer` answer it.
    pub fn serve(request: &web_sys::Request, answer: &Closure<Answer>) -> Promise;

    /// A response, with name and value of every header one a line.
    #[wasm_bindgen(catch)]
    pub fn respond(status: u16, headers: &str, body: &[u8]) -> Result<web_sys::Response, JsValue>;

    /// A response to a request of which nothing is read.
    #[wasm_bindgen(catch, js_name = refuseUnread)]
    pub fn refuse_unread(
        request: &web_sys::Request,
        status: u16,
        headers: &str,
        body: &[u8],
        bytes_max: u32,
        ms: u32,
    ) -> Result<web_sys::Response, JsValue>;

    /// The body of an upload in pieces.
    pub type Intake;

    /// Begins to read a request's body. Nobody else may.
    #[wasm_bindgen(constructor)]
    pub fn new(request: &web_sys::Request, piece_bytes: u32, pieces_max: u32, stall_ms: u32, piece_ms: u32) -> Intake;

    /// The promise of a `Uint8Array` with the next piece, or of a word that says why it does not come.
    #[wasm_bindgen(method)]
    pub fn next(this: &Intake) -> Promise;

    /// The response to it, whether its body was read to the end or not.
    #[wasm_bindgen(method, catch)]
    pub fn answer(
        this: &Intake,
        status: u16,
        headers: &str,
        body: &[u8],
        bytes_max: u32,
        ms: u32,
    ) -> Result<web_sys::Response, JsValue>;

    /// A response whose body is a part of a file.
    #[wasm_bindgen(catch, js_name = sendOut)]
    pub fn send_out(
        status: u16,
        headers: &str,
        sql: &JsValue,
        statement: &JsString,
        content_id: &str,
        from: f64,
        bytes: f64,
        piece_bytes: u32,
        part_bytes: u32,
        pieces_max: u32,
        slow_ms: u32,
    ) -> Result<web_sys::Response, JsValue>;

    /// Runs a statement; parameters and answer are JSON.
    #[wasm_bindgen(catch)]
    pub fn execute(sql: &JsValue, statement: &JsString, parameters: &str) -> Result<String, JsValue>;

    /// The same with bytes among the parameters.
    #[wasm_bindgen(catch, js_name = executeWithBytes)]
    pub fn execute_with_bytes(
        sql: &JsValue,
        statement: &JsString,
        parameters: &str,
        bytes: &[u8],
    ) -> Result<String, JsValue>;
}

/// A parameter on its way to the database.
pub enum Bound<'v> {
    /// One that JSON can hold.
    Plain(&'v Value),
    /// These of the bytes that go beside it.
    Bytes(usize, usize),
}

impl<'v> Bound<'v> {
    /// Parameters, and the bytes that go beside them.
    pub fn all(parameters: &'v [Value]) -> (Vec<Self>, Cow<'v, [u8]>) {
        let mut bytes: Cow<'v, [u8]> = Cow::Borrowed(&[]);
        let mut bind = |value: &'v Value| {
            let Value::Blob(blob) = value else { return Self::Plain(value) };
            let start = bytes.len();
            if start == 0 {
                bytes = Cow::Borrowed(blob);
            } else {
                bytes.to_mut().extend_from_slice(blob);
            }
            Self::Bytes(start, bytes.len())
        };
        let bound = parameters.iter().map(&mut bind).collect();
        (bound, bytes)
    }
}

impl Serialize for Bound<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(Value::Null | Value::Blob(_)) => serializer.serialize_unit(),
            Self::Plain(Value::Integer(number)) => serializer.serialize_i64(*number),
            Self::Plain(Value::Real(number)) => serializer.serialize_f64(*number),
            Self::Plain(Value::Text(text)) => serializer.serialize_str(text),
            Self::Bytes(start, end) => serializer.collect_seq([start, end]),
        }
    }
}

/// A value that came back.
pub struct Found(pub Value);

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FoundVisitor).map(Self)
    }
}

struct FoundVisitor;

impl<'de> Visitor<'de> for FoundVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an SQL value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "it was rounded on its way through JavaScript already")]
        let rounded = number as f64;
        Ok(if number.abs() <= INTEGER_MAX { Value::Integer(number) } else { Value::Real(rounded) })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "it was rounded on its way through JavaScript already")]
        i64::try_from(number).map_or(Ok(Value::Real(number as f64)), |number| self.visit_i64(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Real(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let field: Option<(String, String)> = fields.next_entry()?;
        let bytes = field.and_then(|(_, base64)| STANDARD.decode(base64).ok());
        bytes.map(Value::Blob).ok_or_else(|| A::Error::custom("bytes that are not in base64"))
    }
}
