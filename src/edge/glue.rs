//! The functions of `glue.js`, and SQL values in their JSON.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use wasm_bindgen::prelude::*;
use worker::js_sys::{ArrayBuffer, JsString, Promise};
use worker::{Env, web_sys};

use crate::store::database::{INTEGER_MAX, Value};

/// Answers a request for which the object has no response: its body, the deadline, the kind of trouble, and the runtime's
/// words for it.
pub type Trouble = dyn Fn(Env, web_sys::Request, Option<ArrayBuffer>, f64, String, String) -> JsValue;

/// Answers a request in the object, with a response or the promise of one: its head and its body.
pub type Answer = dyn Fn(web_sys::Request, String, Option<Vec<u8>>) -> JsValue;

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

    /// Reads a request and asks the object once, for `limit` milliseconds at most; what goes wrong is for `trouble` to answer.
    /// Never rejects by itself.
    pub fn forward(
        env: &JsValue,
        request: &web_sys::Request,
        has_length: bool,
        bytes_max: u32,
        limit: f64,
        trouble: &Closure<Trouble>,
    ) -> Promise;

    /// Reads a request that reached the object and lets `answer` answer it.
    pub fn serve(request: &web_sys::Request, answer: &Closure<Answer>) -> Promise;

    /// A response, with name and value of every header one a line.
    #[wasm_bindgen(catch)]
    pub fn respond(status: u16, headers: &str, body: &[u8]) -> Result<web_sys::Response, JsValue>;

    /// Runs a statement; parameters and answer are JSON.
    #[wasm_bindgen(catch)]
    pub fn execute(sql: &JsValue, statement: &JsString, parameters: &str) -> Result<String, JsValue>;
}

/// A parameter on its way to the database.
pub struct Bound<'v>(pub &'v Value);

impl Serialize for Bound<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Integer(number) => serializer.serialize_i64(*number),
            Value::Real(number) => serializer.serialize_f64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Blob(bytes) => serializer.collect_seq(bytes),
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            all.push(byte);
        }
        Ok(Value::Blob(all))
    }
}
