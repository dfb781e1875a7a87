//! Redirect addresses: which may be used at all, and when one is the one that the client is known by.

use url::{Host, Url};

use crate::domain::limits::CLIENT_URL_BYTES_MAX;

/// Where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To a program on the machine of whoever sits at the browser.
    Loopback,
    /// To a site on the internet.
    Site,
}

/// Why an address may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectRefused {
    /// Not an absolute address in plain characters, or too long.
    NotAnAddress,
    /// Neither https nor http on loopback: a scheme of an app's own, say.
    Scheme,
    /// It carries a user name or password.
    Credentials,
    /// It has a fragment.
    Fragment,
}

impl RedirectRefused {
    /// What is wrong, as a sentence.
    pub fn detail(self) -> &'static str {
        match self {
            Self::NotAnAddress => "A redirect address must be an absolute URL of at most 2048 plain characters.",
            Self::Scheme => {
                "A redirect address must begin with https://, or with http://localhost or http://127.0.0.1 for a program on \
                 your own machine. Schemes of an app's own (such as claude://) are not supported."
            }
            Self::Credentials => "A redirect address must not carry a user name or password.",
            Self::Fragment => "A redirect address must not have a fragment.",
        }
    }
}

/// Whether an address may be used, and where it leads.
pub fn check(text: &str) -> Result<Reach, RedirectRefused> {
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'\\' | b'<' | b'>' | b'"'));
    if !is_plain || text.len() > CLIENT_URL_BYTES_MAX {
        return Err(RedirectRefused::NotAnAddress);
    }
    let url = Url::parse(text).map_err(|_| RedirectRefused::NotAnAddress)?;
    if text.contains('#') {
        return Err(RedirectRefused::Fragment);
    }
    let reach = match (url.scheme(), url.host()) {
        ("https" | "http", Some(host)) if loopback(&host).is_some() => Reach::Loopback,
        ("https", Some(_)) => Reach::Site,
        _ => return Err(RedirectRefused::Scheme),
    };
    // What the parser mends, such as `https:/host` or `https:///host`, another may read otherwise.
    let authority = text.split('/').nth(2).unwrap_or_default();
    if !text.to_ascii_lowercase().starts_with(&format!("{}://", url.scheme())) || authority.is_empty() {
        return Err(RedirectRefused::NotAnAddress);
    }
    if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
        return Err(RedirectRefused::Credentials);
    }
    Ok(reach)
}

/// Whether a client that is known by `known` may be sent to `given`; both are addresses that may be used. They must be equal to
/// the letter, but on loopback the port does not count and `localhost` is `127.0.0.1` (RFC 8252 §7.3).
pub fn matches(known: &str, given: &str) -> bool {
    if known == given {
        return true;
    }
    let on_loopback = |text: &str| {
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "http")?;
        let host = loopback(&url.host()?)?;
        Some((host, url.path().to_owned(), url.query().map(str::to_owned)))
    };
    on_loopback(known).is_some_and(|known| on_loopback(given).is_some_and(|given| known == given))
}

/// Which loopback a host is: `localhost` counts as 127.0.0.1.
fn loopback(host: &Host<&str>) -> Option<&'static str> {
    match host {
        Host::Domain("localhost") => Some("127.0.0.1"),
        Host::Ipv4(address) if address.octets() == [127, 0, 0, 1] => Some("127.0.0.1"),
        Host::Ipv6(address) if address.is_loopback() => Some("[::1]"),
        _ => None,
    }
}

/// What is shown of an address: its host, with the port if it has one.
pub fn host(text: &str) -> String {
    let url = Url::parse(text).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    match url.as_ref().and_then(Url::port) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The address with these parameters added.
pub fn with(text: &str, parameters: &[(&str, &str)]) -> String {
    match Url::parse(text) {
        Ok(mut url) => {
            url.query_pairs_mut().extend_pairs(parameters);
            url.into()
        }
        Err(_) => text.to_owned(),
    }
}
