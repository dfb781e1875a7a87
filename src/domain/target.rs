//! Which addresses the hub may call (design §7): https, public, no credentials in the address. A switch for local use
//! permits the rest.
//!
//! The platform resolves names after this check, so a name that resolves to a private address is caught only by the
//! platform (on Cloudflare a Worker cannot reach private networks).

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Which addresses are permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPolicy {
    /// https to public hosts only.
    PublicOnly,
    /// Also http and private hosts (`ALLOW_PRIVATE_WEBHOOKS`).
    PrivateAllowed,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRefused {
    /// Not an absolute http or https address, or too long.
    NotAnAddress,
    /// http, where https is required.
    NotHttps,
    /// It carries a user name or password.
    Credentials,
    /// It names a private, loopback, link-local, metadata or otherwise special host.
    NotPublic,
}

impl TargetRefused {
    /// What to do about it, as a sentence.
    pub fn detail(self) -> &'static str {
        match self {
            Self::NotAnAddress => "The url must be an absolute https address of at most 2048 bytes.",
            Self::NotHttps => "The url must begin with https://.",
            Self::Credentials => "The url must not carry a user name or password; use auth instead.",
            Self::NotPublic => {
                "The url must name a public host: private, loopback, link-local and metadata addresses are refused. \
                 For local use, set ALLOW_PRIVATE_WEBHOOKS=true."
            }
        }
    }
}

/// The address in its normal form if the policy permits it. Normal form undoes every other spelling of an IPv4 host
/// (hex, octal, decimal, short) before it is judged.
pub fn check(text: &str, policy: TargetPolicy) -> Result<String, TargetRefused> {
    if text.len() > super::limits::WAKE_URL_BYTES_MAX {
        return Err(TargetRefused::NotAnAddress);
    }
    let url = Url::parse(text).map_err(|_| TargetRefused::NotAnAddress)?;
    let Some(host) = url.host() else { return Err(TargetRefused::NotAnAddress) };
    match url.scheme() {
        "https" => {}
        "http" if policy == TargetPolicy::PrivateAllowed => {}
        "http" => return Err(TargetRefused::NotHttps),
        _ => return Err(TargetRefused::NotAnAddress),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(TargetRefused::Credentials);
    }
    if policy == TargetPolicy::PublicOnly && !is_public(&host) {
        return Err(TargetRefused::NotPublic);
    }
    Ok(url.into())
}

fn is_public(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_public_name(name),
        Host::Ipv4(address) => is_public_v4(*address),
        Host::Ipv6(address) => is_public_v6(*address),
    }
}

fn is_public_name(name: &str) -> bool {
    const PRIVATE_ENDINGS: [&str; 12] = [
        "localhost",
        "localdomain",
        "local",
        "internal",
        "intranet",
        "lan",
        "home",
        "corp",
        "private",
        "home.arpa",
        "test",
        "invalid",
    ];
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let ends_private = |ending: &&str| name == **ending || name.ends_with(&format!(".{ending}"));
    name.contains('.') && !PRIVATE_ENDINGS.iter().any(ends_private)
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match (s0, s1) {
        // NAT64 carries an IPv4 address in its last 32 bits, 6to4 in the 32 after its prefix.
        (0x64, 0xff9b) if (s2, s3, s4, s5) == (0, 0, 0, 0) => is_public_v4(embedded(s6, s7)),
        (0x2002, _) => is_public_v4(embedded(s1, s2)),
        // Teredo, ORCHID and documentation.
        (0x2001, second) if second < 0x200 || second == 0xdb8 => false,
        (0x3fff, second) if second < 0x1000 => false,
        // Only 2000::/3 is assigned to the public internet.
        _ => (0x2000..0x4000).contains(&s0),
    }
}
