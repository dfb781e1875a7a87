//! Canonical parameters (RFC 8785) and the keys made of them.

use serde_json::{Value as Json, json};
use taskhub::domain::ledger::{Inexact, Loss, Lost, canonical, key, question};
use taskhub::domain::limits::{ACTION_NAME_BYTES_MAX, ASKED_ACTIONS_MAX, MESSAGE_CHARS_MAX, TITLE_CHARS_MAX};
use taskhub::domain::secret::sha256_hex;

/// Whether the key is made of this text.
fn is_made_of(params: &Json, text: &str) {
    assert_eq!(key("t", "s", "x", params), sha256_hex(&format!(r#"["t","s","x",{text}]"#)), "{params} is not {text}");
}

/// RFC 8785, appendix B.
#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
    for (bits, text) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        is_made_of(&json!(f64::from_bits(bits)), text);
    }
    for (given, text) in [("56.0", "56"), ("4.50", "4.5"), ("2e-3", "0.002"), ("1E0", "1"), ("-0", "0"), ("100", "100")]
    {
        is_made_of(&serde_json::from_str(given).unwrap(), text);
    }
}

/// RFC 8785, section 3.2.3: by UTF-16 code units, in which an emoji comes before a letter that follows it in Unicode.
#[test]
fn names_are_sorted_by_utf_16() {
    let given = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let right = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\
                 \"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    is_made_of(&serde_json::from_str(given).unwrap(), right);
    assert_eq!(canonical(&serde_json::from_str(given).unwrap()), Ok(right.to_owned()));
}

/// RFC 8785, sections 3.2.2 and 3.2.4.
#[test]
fn texts_are_escaped_no_more_than_they_must_be() {
    let given = r#"{"numbers":[333333333.33333329,4.50,2e-3],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals":[null,true,false]}"#;
    let right =
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
    assert_eq!(canonical(&serde_json::from_str(given).unwrap()), Ok(right.to_owned()));
    let controls = json!("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{2028}e\u{301}é");
    let right = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\u{7f}\u{2028}e\u{301}é\"";
    assert_eq!(canonical(&controls), Ok(right.to_owned()), "nothing is normalised");
}

#[test]
fn numbers_that_programs_confuse_are_refused() {
    for text in
        ["9007199254740992", "-9007199254740992", "18446744073709551615", "1e17", "123456789012345678901234567890"]
    {
        let number: Json = serde_json::from_str(text).unwrap();
        for params in [number.clone(), json!([number]), json!({ "a": [{ "b": number }] })] {
            assert!(matches!(canonical(&params), Err(Inexact(_))), "{params}");
        }
    }
    for text in ["9007199254740991", "-9007199254740991", "0.1", "-1e-300"] {
        assert!(canonical(&serde_json::from_str(text).unwrap()).is_ok(), "{text}");
    }
}

/// Whatever is canonical says the same when it is read, and is canonical itself.
#[test]
fn what_is_canonical_stays_so() {
    crate::fuzz::check(200, &crate::fuzz::shapes::value(), |value| {
        let Ok(text) = canonical(&value) else { return };
        let read: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text} is no JSON: {error}"));
        assert_eq!(canonical(&read), Ok(text));
        assert_eq!(key("t", "s", "x", &read), key("t", "s", "x", &value));
    });
}

#[test]
fn a_question_is_short_enough_for_what_it_is_stored_in() {
    let long = "\"\n👩‍👩‍👧‍👦".repeat(ACTION_NAME_BYTES_MAX);
    let name: String = long.chars().take(ACTION_NAME_BYTES_MAX).collect();
    let hash = "a".repeat(64);
    let lost = Lost { step_id: &name, tool: &name, params: &long, key: &hash, began_at: i64::MAX };
    let title = "t".repeat(TITLE_CHARS_MAX);
    for count in [1, ASKED_ACTIONS_MAX, ASKED_ACTIONS_MAX + 1, 200] {
        let text = question(&title, (u32::MAX, &name), Loss::Silent, &vec![lost; count]);
        assert!(text.chars().count() <= MESSAGE_CHARS_MAX, "{count}: {}", text.chars().count());
        let more = count.saturating_sub(ASKED_ACTIONS_MAX);
        assert_eq!(text.contains(&format!("and {more} more")), more > 0, "{count}");
    }
}
