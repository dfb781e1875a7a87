//! Which addresses a webhook may have (design §7), spelling by spelling.

use taskhub::domain::target::TargetPolicy::{PrivateAllowed, PublicOnly};
use taskhub::domain::target::TargetRefused::{self, Credentials, NotAnAddress, NotHttps, NotPublic};
use taskhub::domain::target::check;

const REFUSED: &[(&str, TargetRefused)] = &[
    // Loopback, in every spelling of 127.0.0.1.
    ("https://127.0.0.1/", NotPublic),
    ("https://127.1/", NotPublic),
    ("https://127.0.1/", NotPublic),
    ("https://2130706433/", NotPublic),
    ("https://0x7f000001/", NotPublic),
    ("https://0x7F.0.0.1/", NotPublic),
    ("https://0177.0.0.1/", NotPublic),
    ("https://017700000001/", NotPublic),
    ("https://127.0.0.1./", NotPublic),
    ("https://127.255.255.254/", NotPublic),
    ("https://[::1]/", NotPublic),
    ("https://[0:0:0:0:0:0:0:1]/", NotPublic),
    ("https://[::ffff:127.0.0.1]/", NotPublic),
    ("https://[::ffff:7f00:1]/", NotPublic),
    ("https://[::127.0.0.1]/", NotPublic),
    ("https://[64:ff9b::127.0.0.1]/", NotPublic),
    ("https://[64:ff9b::7f00:1]/", NotPublic),
    ("https://[64:ff9b:1::1]/", NotPublic),
    ("https://[64:ff9b:1::1.1.1.1]/", NotPublic),
    ("https://[2002:7f00:1::]/", NotPublic),
    ("https://%31%32%37.0.0.1/", NotPublic),
    // Private networks.
    ("https://10.0.0.1/", NotPublic),
    ("https://172.16.0.1/", NotPublic),
    ("https://172.31.255.255/", NotPublic),
    ("https://192.168.1.1/", NotPublic),
    ("https://3232235777/", NotPublic),
    ("https://100.64.0.1/", NotPublic),
    ("https://100.127.255.255/", NotPublic),
    ("https://[fc00::1]/", NotPublic),
    ("https://[fd12:3456:789a::1]/", NotPublic),
    ("https://[2002:c0a8:101::1]/", NotPublic),
    ("https://[::ffff:10.0.0.1]/", NotPublic),
    // Link-local, and the metadata services that live there.
    ("https://169.254.169.254/latest/meta-data/", NotPublic),
    ("https://0xa9fea9fe/", NotPublic),
    ("https://[fe80::1]/", NotPublic),
    ("https://[::ffff:169.254.169.254]/", NotPublic),
    ("https://[64:ff9b::169.254.169.254]/", NotPublic),
    ("https://[fd00:ec2::254]/", NotPublic),
    ("https://metadata.google.internal/", NotPublic),
    // Nowhere, everywhere, documentation, measurement, reserved, multicast.
    ("https://0.0.0.0/", NotPublic),
    ("https://0/", NotPublic),
    ("https://0.1.2.3/", NotPublic),
    ("https://255.255.255.255/", NotPublic),
    ("https://240.0.0.1/", NotPublic),
    ("https://224.0.0.1/", NotPublic),
    ("https://192.0.0.1/", NotPublic),
    ("https://192.0.2.1/", NotPublic),
    ("https://198.51.100.1/", NotPublic),
    ("https://203.0.113.1/", NotPublic),
    ("https://198.18.0.1/", NotPublic),
    ("https://198.19.255.255/", NotPublic),
    ("https://192.88.99.1/", NotPublic),
    ("https://[::]/", NotPublic),
    ("https://[ff02::1]/", NotPublic),
    ("https://[2001:db8::1]/", NotPublic),
    ("https://[2001::1]/", NotPublic),
    ("https://[2001:10::1]/", NotPublic),
    ("https://[2001:1ff:ffff::1]/", NotPublic),
    ("https://[3fff::1]/", NotPublic),
    ("https://[3fff:fff:ffff::1]/", NotPublic),
    ("https://[5f00::1]/", NotPublic),
    // Names that lead inside.
    ("https://localhost/", NotPublic),
    ("https://LOCALHOST/", NotPublic),
    ("https://localhost./", NotPublic),
    ("https://localhost../", NotPublic),
    ("https://a.localhost/", NotPublic),
    ("https://a.localhost./", NotPublic),
    ("https://localhost.localdomain/", NotPublic),
    ("https://printer.local/", NotPublic),
    ("https://db.internal/", NotPublic),
    ("https://db.prod.internal/", NotPublic),
    ("https://wiki.corp/", NotPublic),
    ("https://nas.lan/", NotPublic),
    ("https://nas.home.arpa/", NotPublic),
    ("https://home.arpa/", NotPublic),
    ("https://intranet/", NotPublic),
    ("https://metadata/", NotPublic),
    // Credentials in the address.
    ("https://user@bot.example/", Credentials),
    ("https://user:secret@bot.example/", Credentials),
    ("https://:secret@bot.example/", Credentials),
    ("https://bot.example@127.0.0.1/", Credentials),
    // Other schemes, and no address at all.
    ("http://bot.example/", NotHttps),
    ("http://127.0.0.1/", NotHttps),
    ("ftp://bot.example/", NotAnAddress),
    ("file:///etc/passwd", NotAnAddress),
    ("data:text/plain,hello", NotAnAddress),
    ("javascript:alert(1)", NotAnAddress),
    ("unix:/run/bot.sock", NotAnAddress),
    ("wss://bot.example/", NotAnAddress),
    ("https://", NotAnAddress),
    ("https:// /", NotAnAddress),
    ("https://bot.example:99999/", NotAnAddress),
    ("https://[::1/", NotAnAddress),
    ("https://256.256.256.256/", NotAnAddress),
    ("//bot.example/", NotAnAddress),
    ("/wake", NotAnAddress),
    ("bot.example", NotAnAddress),
    ("", NotAnAddress),
    // International names must come in their xn-- form.
    ("https://bücher.example/", NotAnAddress),
];

const PERMITTED: &[(&str, &str)] = &[
    ("https://bot.example/wake", "https://bot.example/wake"),
    ("HTTPS://Bot.Example/Wake?a=1#part", "https://bot.example/Wake?a=1#part"),
    ("https://bot.example:8443", "https://bot.example:8443/"),
    ("https:///bot.example/", "https://bot.example/"),
    ("https://bot.example./", "https://bot.example./"),
    ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
    ("https://localhost.example.com/", "https://localhost.example.com/"),
    ("https://notlocalhost.com/", "https://notlocalhost.com/"),
    ("https://internal.example.com/", "https://internal.example.com/"),
    ("https://1.1.1.1/", "https://1.1.1.1/"),
    ("https://0x01010101/", "https://1.1.1.1/"),
    ("https://172.15.0.1/", "https://172.15.0.1/"),
    ("https://172.32.0.1/", "https://172.32.0.1/"),
    ("https://100.63.0.1/", "https://100.63.0.1/"),
    ("https://100.128.0.1/", "https://100.128.0.1/"),
    ("https://192.0.1.1/", "https://192.0.1.1/"),
    ("https://192.1.0.1/", "https://192.1.0.1/"),
    ("https://192.88.98.1/", "https://192.88.98.1/"),
    ("https://192.87.99.1/", "https://192.87.99.1/"),
    ("https://11.0.0.1/", "https://11.0.0.1/"),
    ("https://11.88.99.1/", "https://11.88.99.1/"),
    ("https://11.18.0.1/", "https://11.18.0.1/"),
    ("https://11.64.0.1/", "https://11.64.0.1/"),
    ("https://198.17.0.1/", "https://198.17.0.1/"),
    ("https://198.20.0.1/", "https://198.20.0.1/"),
    ("https://223.255.255.1/", "https://223.255.255.1/"),
    ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
    ("https://[::ffff:1.1.1.1]/", "https://[::ffff:101:101]/"),
    ("https://[64:ff9b::1.1.1.1]/", "https://[64:ff9b::101:101]/"),
    ("https://[2002:101:101::]/", "https://[2002:101:101::]/"),
    ("https://[2001:200::1]/", "https://[2001:200::1]/"),
    ("https://[3fff:1000::1]/", "https://[3fff:1000::1]/"),
];

#[test]
fn what_is_not_public_is_refused_in_every_spelling() {
    for (address, refused) in REFUSED {
        assert_eq!(check(address, PublicOnly), Err(*refused), "{address}");
    }
}

#[test]
fn what_is_public_is_permitted_in_its_normal_form() {
    for (address, normal) in PERMITTED {
        assert_eq!(check(address, PublicOnly).as_deref(), Ok(*normal), "{address}");
    }
}

/// Digits and letters of other scripts that mean ASCII ones must not lead around the check.
#[test]
fn look_alikes_of_private_hosts_are_refused() {
    for address in ["https://１２７.0.0.1/", "https://ⓛocalhost/", "https://127。0。0。1/", "https://loc\u{ad}alhost/"]
    {
        assert!(check(address, PublicOnly).is_err(), "{address}: {:?}", check(address, PublicOnly));
    }
}

#[test]
fn the_switch_permits_http_and_private_hosts_but_nothing_else() {
    for address in ["http://127.0.0.1:9000/wake", "https://10.0.0.1/", "http://localhost/", "http://[::1]/"] {
        assert!(check(address, PrivateAllowed).is_ok(), "{address}");
    }
    assert_eq!(check("http://user@127.0.0.1/", PrivateAllowed), Err(Credentials));
    for address in ["ftp://127.0.0.1/", "file:///etc/passwd", "", "https://"] {
        assert_eq!(check(address, PrivateAllowed), Err(NotAnAddress), "{address}");
    }
}

#[test]
fn an_address_has_a_limit() {
    let longest = format!("https://bot.example/{}", "x".repeat(2_048 - 20));
    assert!(check(&longest, PublicOnly).is_ok());
    assert_eq!(check(&format!("{longest}x"), PublicOnly), Err(NotAnAddress));
}

#[test]
fn every_refusal_says_what_to_do() {
    for refused in [NotAnAddress, NotHttps, Credentials, NotPublic] {
        assert!(refused.detail().ends_with('.') && refused.detail().starts_with("The url must"));
    }
}
