//! What the cases are made of: odd texts and values, and changes that make a right body nearly right.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};

/// Texts that have broken parsers before.
const ODD: [&str; 36] = [
    "",
    " ",
    "\u{0}",
    "a\u{0}b",
    "\u{feff}",
    "\u{202e}abc",
    "\u{10ffff}",
    "👩‍👩‍👧‍👦",
    "e\u{301}",
    "İ",
    "ß",
    "\r\n",
    "\"\\",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "NaN",
    "../../etc/passwd",
    "%00",
    "%2e%2e%2f",
    "'; DROP TABLE tasks; --",
    "{{7*7}}",
    "$ID",
    "$OLDID",
    "t_000000000_0000000000000000",
    "t_zzzzzzzzz_zzzzzzzzzzzzzzzz",
    "bot",
    "@bot",
    "q",
    "clm_0.AAAAAAAAAAAAAAAAAAAAAA",
    "clm_4294967296.AAAAAAAAAAAAAAAAAAAAAA",
    "exk_bot.AAAA.AAAA",
    "2026-12-31T18:00:00+01:00",
    "Bearer x",
];

/// Numbers at the edges of the types that take them.
fn number() -> impl Strategy<Value = Json> {
    let edges = vec![
        json!(0),
        json!(-1),
        json!(1),
        json!(9),
        json!(10),
        json!(25),
        json!(26),
        json!(50),
        json!(51),
        json!(1.5),
        json!(-0.0),
        json!(0.1),
        json!(1e300),
        json!(5e-324),
        json!(u32::MAX),
        json!(u64::from(u32::MAX) + 1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(9_007_199_254_740_993_u64),
    ];
    prop_oneof![select(edges), any::<i64>().prop_map(Json::from), any::<f64>().prop_map(Json::from)]
}

/// Any text: odd, long, or of any characters.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => select(&ODD[..]).prop_map(str::to_owned),
        2 => proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter),
        1 => "[ -~]{0,40}",
        1 => (any::<char>(), select(vec![41_usize, 201, 2_001, 8_001, 70_000])).prop_map(|(c, n)| c.to_string().repeat(n)),
    ]
}

/// Any JSON, some of it deep.
pub fn value() -> impl Strategy<Value = Json> {
    let leaf =
        prop_oneof![Just(Json::Null), any::<bool>().prop_map(Json::from), number(), text().prop_map(Json::from),];
    let tree = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::vec((text(), inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    prop_oneof![12 => tree, 1 => (1_usize..140).prop_map(deep)]
}

/// Lists in lists.
pub fn deep(levels: usize) -> Json {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// One change to a body.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another value somewhere.
    Set(Index, Json),
    /// A value left out somewhere.
    Remove(Index),
    /// A field too many in the body itself.
    Add(String, Json),
    /// A credential where it does not belong.
    Misplace(Index, &'static str),
    /// Bytes put into the written body.
    Insert(Index, Vec<u8>),
    /// The written body, cut.
    Cut(Index),
    /// Something else altogether.
    Replace(Vec<u8>),
}

/// Bytes that JSON does not take, or takes differently than one thinks.
const BYTES: [&[u8]; 14] = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\ud83d\\ude00",
    b"\\u0000",
    b"\0",
    b"e999",
    b"\xef\xbb\xbf",
    b",",
    b"\"",
    b"//",
    b"[",
    b"-",
];

/// One change.
fn change() -> impl Strategy<Value = Change> {
    let bytes = prop_oneof![select(&BYTES[..]).prop_map(<[u8]>::to_vec), proptest::collection::vec(any::<u8>(), 0..6),];
    prop_oneof![
        8 => (any::<Index>(), value()).prop_map(|(at, value)| Change::Set(at, value)),
        3 => any::<Index>().prop_map(Change::Remove),
        2 => (text(), value()).prop_map(|(name, value)| Change::Add(name, value)),
        2 => (any::<Index>(), select(vec!["$TOKEN", "$KEY"])).prop_map(|(at, what)| Change::Misplace(at, what)),
        2 => (any::<Index>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Change::Replace),
    ]
}

/// No change in a good third of the cases, else a few.
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![1 => Just(vec![]), 2 => proptest::collection::vec(change(), 1..4)]
}

/// The body as it is sent.
pub fn written(right: &Json, changes: &[Change]) -> Vec<u8> {
    let mut body = right.clone();
    for change in changes {
        match change {
            Change::Set(at, value) => set(&mut body, at, value.clone()),
            Change::Misplace(at, what) => misplace(&mut body, at, what),
            Change::Remove(at) => remove(&mut body, at),
            Change::Add(name, value) => {
                if let Some(fields) = body.as_object_mut() {
                    fields.insert(name.clone(), value.clone());
                }
            }
            Change::Insert(..) | Change::Cut(_) | Change::Replace(_) => {}
        }
    }
    let mut bytes = body.to_string().into_bytes();
    for change in changes {
        match change {
            Change::Insert(at, more) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Change::Replace(other) => bytes.clone_from(other),
            Change::Set(..) | Change::Remove(_) | Change::Add(..) | Change::Misplace(..) => {}
        }
    }
    bytes
}

fn set(body: &mut Json, at: &Index, value: Json) {
    let places = places(body);
    if let Some(place) = body.pointer_mut(&places[at.index(places.len())]) {
        *place = value;
    }
}

/// Names are repeated in a refusal, so that one sees a slip of the pen; a credential is put anywhere else.
fn misplace(body: &mut Json, at: &Index, what: &str) {
    let mut places = places(body);
    places.retain(|place| !place.contains("/queues/") && place != "/name");
    if let Some(place) = body.pointer_mut(&places[at.index(places.len())]) {
        *place = json!(what);
    }
}

fn remove(body: &mut Json, at: &Index) {
    let places = places(body);
    let Some((parent, name)) = places[at.index(places.len())].rsplit_once('/') else { return };
    match body.pointer_mut(parent) {
        Some(Json::Object(fields)) => drop(fields.remove(&name.replace("~1", "/").replace("~0", "~"))),
        Some(Json::Array(items)) => drop(items.pop()),
        _ => {}
    }
}

/// JSON pointers to the body and to everything in it.
fn places(body: &Json) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut collect =
        |prefix: &str, inner: &Json| all.extend(places(inner).iter().map(|rest| format!("{prefix}{rest}")));
    match body {
        Json::Object(fields) => {
            for (name, inner) in fields {
                collect(&format!("/{}", name.replace('~', "~0").replace('/', "~1")), inner);
            }
        }
        Json::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                collect(&format!("/{index}"), inner);
            }
        }
        _ => {}
    }
    all
}
