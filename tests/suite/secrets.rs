//! Keys, tokens and hashes.

use taskhub::domain::ids::{TaskId, is_executor_name, is_queue_name};
use taskhub::domain::secret::{
    attempt_of_token, claim_token, equal, executor_key, executor_of_key, mac, mac_bytes, sha256_hex,
};
use taskhub::domain::wake::signing_key;

const SECRET: &str = "a secret of the tests, long enough";

#[test]
fn a_hash_is_sha_256_in_hex() {
    assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn a_mac_is_hmac_sha_256() {
    // RFC 4231, test case 2.
    let hex: String =
        mac_bytes(b"Jefe", b"what do ya want for nothing?").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

#[test]
fn no_two_lists_of_parts_have_one_mac() {
    assert_ne!(mac(SECRET, "p", &["ab", "c"]), mac(SECRET, "p", &["a", "bc"]));
    assert_ne!(mac(SECRET, "p", &["ab", ""]), mac(SECRET, "p", &["ab"]));
    assert_ne!(mac(SECRET, "pa", &["b"]), mac(SECRET, "p", &["ab"]));
    assert_ne!(mac(SECRET, "p", &["a"]), mac("another", "p", &["a"]));
}

#[test]
fn a_key_is_known_by_its_secret_alone() {
    let key = executor_key(SECRET, "bot-1", [7; 24]);
    assert!(key.starts_with("exk_bot-1."));
    assert_eq!(key.split('.').count(), 3);
    assert_eq!(executor_of_key(SECRET, &key), Some("bot-1"));
    assert_eq!(executor_of_key("another secret, also long enough!", &key), None);
}

#[test]
fn junk_is_not_a_key() {
    let key = executor_key(SECRET, "bot", [7; 24]);
    let (head, mac) = key.rsplit_once('.').unwrap();
    let junk = [
        String::new(),
        "exk_".to_owned(),
        "exk_bot".to_owned(),
        "exk_bot..".to_owned(),
        head.to_owned(),
        format!("{head}."),
        format!("{key}."),
        format!("{key}.x"),
        format!("{head}.{}", mac.to_lowercase()),
        key.replacen("bot", "ant", 1),
        key.replacen("exk_", "EXK_", 1),
        key[1..].to_owned(),
        format!(" {key}"),
        "é".repeat(100),
    ];
    for junk in junk {
        assert_eq!(executor_of_key(SECRET, &junk), None, "{junk}");
    }
}

#[test]
fn every_change_of_a_key_ends_it() {
    let key = executor_key(SECRET, "bot", [7; 24]);
    for index in 0..key.len() {
        let mut bytes = key.clone().into_bytes();
        bytes[index] = if bytes[index] == b'a' { b'b' } else { b'a' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(executor_of_key(SECRET, &changed), None, "{changed}");
    }
}

#[test]
fn a_claim_token_follows_from_the_claim_and_names_its_attempt() {
    let token = claim_token(SECRET, "t_1", 12, "bot");
    assert_eq!(token, claim_token(SECRET, "t_1", 12, "bot"));
    assert_eq!(attempt_of_token(&token), Some(12));
    let others = [
        claim_token(SECRET, "t_2", 12, "bot"),
        claim_token(SECRET, "t_1", 13, "bot"),
        claim_token(SECRET, "t_1", 12, "ant"),
        claim_token("another secret, also long enough!", "t_1", 12, "bot"),
    ];
    assert!(others.iter().all(|other| *other != token));
}

#[test]
fn junk_names_no_attempt() {
    let mac = "a".repeat(22);
    for junk in ["", "clm_", "clm_1", "clm_1.", "clm_1.short", "1.x", "clm_x.y"] {
        assert_eq!(attempt_of_token(junk), None, "{junk}");
    }
    assert_eq!(attempt_of_token(&format!("clm_1.{mac}")), Some(1));
    assert_eq!(attempt_of_token(&format!("clm_1.-_{}", &mac[2..])), Some(1));
    assert_eq!(attempt_of_token(&format!("clm_-1.{mac}")), None);
    assert_eq!(attempt_of_token(&format!("clm_99999999999.{mac}")), None);
    assert_eq!(attempt_of_token(&format!("clm_1.{}=", "a".repeat(21))), None);
}

#[test]
fn secrets_are_equal_or_not() {
    assert!(equal("same", "same") && equal("", ""));
    assert!(!equal("same", "sane") && !equal("same", "same ") && !equal("", "x"));
}

#[test]
fn a_signing_key_has_24_to_64_bytes() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
    for (bytes, right) in [(23, false), (24, true), (32, true), (64, true), (65, false)] {
        assert_eq!(signing_key(&secret(bytes)).map(|key| key.len()), right.then_some(bytes));
    }
    assert_eq!(signing_key("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), None);
    assert_eq!(signing_key("whsec_not base64"), None);
}

#[test]
fn ids_sort_by_time_and_read_back() {
    let times = [0, 1, 35, 36, 1_700_000_000_000, 1_800_000_000_000, 1_800_000_000_001];
    let ids: Vec<TaskId> = times.iter().map(|time| TaskId::new(*time, [0; 10])).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    for id in &ids {
        assert_eq!(TaskId::parse(id.as_str()).as_ref(), Some(id));
    }
    let prefixes = [0, 9, 10, 35, 36, 36 * 36 + 11].map(TaskId::time_prefix);
    assert_eq!(prefixes, ["t_000000000", "t_000000009", "t_00000000a", "t_00000000z", "t_000000010", "t_00000010b"]);
    let last = TaskId::new(1_800_000_000_000, [255; 10]);
    assert_eq!(last.as_str(), "t_0mywpiww0_zzzzzzzzzzzzzzzz");
    assert!(TaskId::time_prefix(1_800_000_000_000).as_str() < last.as_str());
    assert!(last.as_str() < TaskId::time_prefix(1_800_000_000_001).as_str());
}

#[test]
fn what_is_no_id_is_not_read() {
    let right = TaskId::new(1_800_000_000_000, [1; 10]).to_string();
    let wrong = [
        "",
        "t_",
        "t__",
        &right[2..],
        &right.to_uppercase(),
        &format!("{right}0"),
        &right[..right.len() - 1],
        &right.replace('_', "-"),
        &format!("{}é", &right[..right.len() - 2]),
        &format!("{}u", &right[..right.len() - 1]),
        "t_0mz4cqjk_0000000000000000",
        "t_0mz4cqjk00_0000000000000000",
        "t_0mz4Cqjk0_0000000000000000",
        "t_0mz4-qjk0_0000000000000000",
        "t_0mz4cqjk0_000000000000000",
        "t_0mz4cqjk0_00000000000000000",
        "t_0mz4cqjk0_000000000000000u",
        "t_0mz4cqjk0_0000000-00000000",
        "t_0mz4cqjk0_0000000000000000'; DROP TABLE tasks; --",
    ];
    for wrong in wrong {
        assert_eq!(TaskId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn names_of_executors_and_queues() {
    for name in ["a", "0", "bot", "bot-1", "a-", &"a".repeat(40)] {
        assert!(is_executor_name(name) && is_queue_name(name), "{name}");
    }
    for name in ["", "-a", "Bot", "bot_1", "bot.1", "bot 1", "böt", "@bot", &"a".repeat(41)] {
        assert!(!is_executor_name(name), "{name}");
    }
    for name in ["a.b_c-d", &"a".repeat(64)] {
        assert!(is_queue_name(name), "{name}");
    }
    for name in ["", ".a", "_a", "@a", "A", "a/b", "a~b", &"a".repeat(65)] {
        assert!(!is_queue_name(name), "{name}");
    }
}
