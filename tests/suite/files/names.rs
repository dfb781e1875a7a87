//! What files are called, which type they have, and what their links are good for.

use proptest::prelude::{any, proptest};
use taskhub::domain::file::{
    LinkPurpose, LinkRefused, Receiving, clean_name, content_type, link_query, parse_sha256, read_link, sha256_of,
};
use taskhub::domain::ids::FileId;
use taskhub::domain::limits::FILE_NAME_BYTES_MAX;

const SECRET: &str = "a secret of the tests, long enough";
const NOW: i64 = 1_800_000_000_000;

#[test]
fn a_name_is_made_safe_and_kept_recognisable() {
    for (given, clean) in [
        ("report.pdf", "report.pdf"),
        ("Bericht für Ørjan – 日本語.txt", "Bericht für Ørjan – 日本語.txt"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system32\\cmd.exe", "cmd.exe"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("/", ""),
        ("a/", "a"),
        ("a/..", ""),
        (".", ""),
        ("....", ""),
        (". . .", ""),
        ("", ""),
        (".bashrc", "bashrc"),
        ("...a...", "a"),
        (" a b ", "a b"),
        ("a.txt. . ", "a.txt"),
        ("a\r\nSet-Cookie: b=c", "aSet-Cookie_ b=c"),
        ("a\u{0}.txt", "a.txt"),
        ("\u{202e}fdp.exe", "fdp.exe"),
        ("a\u{200b}\u{feff}b\u{ad}c", "abc"),
        ("\u{2066}x\u{2069}", "x"),
        ("a\u{a0}b\u{3000}c", "a b c"),
        ("a<b>c:d\"e|f?g*h", "a_b_c_d_e_f_g_h"),
        ("%2e%2e%2fa", "%2e%2e%2fa"),
        ("CON", "_CON"),
        ("con.txt", "_con.txt"),
        ("nul .tar.gz", "_nul .tar.gz"),
        ("COM1", "_COM1"),
        ("lpt³.log", "_lpt³.log"),
        ("COM10", "COM10"),
        ("console", "console"),
        ("😀.png", "😀.png"),
        ("-rf", "-rf"),
        ("~", "~"),
        ("$(reboot)`x`;&'", "$(reboot)`x`;&'"),
    ] {
        assert_eq!(clean_name(given).unwrap_or_default(), clean, "{given:?}");
    }
}

#[test]
fn a_long_name_keeps_its_extension_and_whole_characters() {
    let clean = clean_name(&format!("{}.tar.gz", "ä".repeat(300))).unwrap();
    assert!(clean.len() <= FILE_NAME_BYTES_MAX && clean.len() >= FILE_NAME_BYTES_MAX - 1, "{}", clean.len());
    assert!(clean.starts_with("ää") && clean.ends_with("ä.gz"), "{clean}");
    let without = clean_name(&"x".repeat(300)).unwrap();
    assert_eq!(without, "x".repeat(FILE_NAME_BYTES_MAX));
    let no_extension = clean_name(&format!("a.{}", "x".repeat(300))).unwrap();
    assert_eq!(no_extension.len(), FILE_NAME_BYTES_MAX, "what is so long is no extension");
    let reserved = clean_name(&format!("con.{}.txt", "x".repeat(300))).unwrap();
    assert!(reserved.len() == FILE_NAME_BYTES_MAX && reserved.starts_with("_con.x") && reserved.ends_with("x.txt"));
}

proptest! {
    #[test]
    fn whatever_a_sender_writes_comes_out_safe(given in any::<String>()) {
        let Some(clean) = clean_name(&given) else { return Ok(()) };
        assert!(!clean.is_empty() && clean.len() <= FILE_NAME_BYTES_MAX);
        assert!(!clean.chars().any(|c| c.is_control() || "<>:\"|?*/\\".contains(c)), "{clean:?}");
        assert!(!clean.starts_with(['.', ' ']) && !clean.ends_with(['.', ' ']), "{clean:?}");
        assert_eq!(clean_name(&clean).as_deref(), Some(clean.as_str()), "twice is the same as once");
    }
}

#[test]
fn a_type_is_the_senders_if_it_says_something_else_the_names() {
    for (given, name, right) in [
        (Some("image/PNG"), "a.txt", "image/png"),
        (Some(" text/plain; charset=UTF-8 "), "a", "text/plain; charset=utf-8"),
        (Some("application/octet-stream"), "a.json", "application/json"),
        (Some("application/x-www-form-urlencoded"), "a.csv", "text/csv; charset=utf-8"),
        (Some("application/x-www-form-urlencoded; charset=utf-8"), "a.PDF", "application/pdf"),
        (Some("multipart/form-data; boundary=x"), "a.png", "image/png"),
        (Some("text/html\r\nx: y"), "a.txt", "text/plain; charset=utf-8"),
        (Some("text"), "a", "application/octet-stream"),
        (Some("text/"), "a", "application/octet-stream"),
        (Some("a/b; c"), "a", "application/octet-stream"),
        (Some("text/plain; x=\"y\""), "a", "application/octet-stream"),
        (Some(""), "a.tar.gz", "application/gzip"),
        (None, "txt", "application/octet-stream"),
        (None, "a.unknown", "application/octet-stream"),
        (None, "a.svg", "image/svg+xml"),
    ] {
        assert_eq!(content_type(given, name), right, "{given:?} {name}");
    }
    let long = format!("text/{}", "x".repeat(200));
    assert_eq!(content_type(Some(&long), "a.md"), "text/markdown; charset=utf-8");
}

#[test]
fn a_link_is_good_for_one_file_one_purpose_and_its_time() {
    let id = FileId::new(NOW, [7; 10]);
    let other = FileId::new(NOW, [8; 10]);
    let end = NOW / 1000 + 900;
    for purpose in [LinkPurpose::Download, LinkPurpose::Upload] {
        let query = link_query(SECRET, purpose, id.as_str(), end);
        let read = |id: &str, query: &str, now| read_link(SECRET, purpose, id, query, now);
        assert_eq!(read(id.as_str(), &query, NOW), Ok(id.clone()));
        assert_eq!(read(id.as_str(), &format!("utm=x&{query}"), NOW), Ok(id.clone()), "in any order, with others");
        assert_eq!(read(id.as_str(), &query, end * 1000 - 1), Ok(id.clone()));
        assert_eq!(read(id.as_str(), &query, end * 1000), Err(LinkRefused::Expired));
        assert_eq!(read(other.as_str(), &query, NOW), Err(LinkRefused::Foreign));
        assert_eq!(read("f_x", &query, NOW), Err(LinkRefused::Foreign));
        let later = query.replacen(&end.to_string(), &(end + 1).to_string(), 1);
        for junk in
            ["", "exp=1", "sig=x", "exp=&sig=", &later, &query[..query.len() - 1], &format!("exp=0{}", &query[4..])]
        {
            assert_eq!(read(id.as_str(), junk, NOW), Err(LinkRefused::Foreign), "{junk}");
        }
        let wrong = if purpose == LinkPurpose::Download { LinkPurpose::Upload } else { LinkPurpose::Download };
        assert_eq!(read_link(SECRET, wrong, id.as_str(), &query, NOW), Err(LinkRefused::Foreign));
        assert_eq!(read_link("another", purpose, id.as_str(), &query, NOW), Err(LinkRefused::Foreign));
    }
}

#[test]
fn an_upload_has_the_hash_of_all_its_pieces() {
    let mut receiving = Receiving::begin(FileId::new(NOW, [7; 10]), "c".to_owned(), NOW, 10, true);
    assert_eq!(receiving.sha256(), sha256_of(b""));
    for piece in [&b"a"[..], b"", b"bc"] {
        receiving = receiving.with(piece);
    }
    assert_eq!((receiving.pieces, receiving.size), (3, 3));
    assert_eq!(receiving.sha256(), sha256_of(b"abc"));
    assert_eq!(receiving.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(parse_sha256(&receiving.sha256().to_uppercase()), Some(receiving.sha256()));
    for junk in ["", "ba78", &"g".repeat(64), &"ä".repeat(32), &"a".repeat(65)] {
        assert_eq!(parse_sha256(junk), None, "{junk}");
    }
}
