//! The guard: only a browser with the token, at the page's own address, gets the page and its data.
//!
//! This module owns that decision, which depends on the head of a request only. All users of this
//! machine can reach its ports, and so can every web page that one of them opens. The token keeps
//! out other users. The checks of `Host`, `Origin` and `Sec-Fetch-Site` keep out other web pages.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderName, Request, StatusCode, header};
use sha2::{Digest, Sha256};

/// The random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The secret that a browser has to present.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Generates a random token.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Token(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// Compares tokens, in constant time since only digests are compared.
    fn is(&self, other: &str) -> bool {
        Sha256::digest(self.0.as_bytes()) == Sha256::digest(other.as_bytes())
    }
}

/// Decides which requests are answered.
#[derive(Debug)]
pub struct Guard {
    /// The values of `Host` that belong to the page.
    hosts: Vec<String>,
    token: Token,
}

impl Guard {
    /// Builds a guard for a page at an address.
    pub fn new(address: SocketAddr, token: Token) -> Guard {
        let hosts = vec![address.to_string(), format!("localhost:{}", address.port())];
        Guard { hosts, token }
    }

    /// Returns the URL of the page, including the token.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.hosts[0], self.token.0)
    }

    /// Returns the status and the message of a refusal; `None` if the request is admitted.
    pub fn refusal<B>(&self, request: &Request<B>) -> Option<(StatusCode, &'static str)> {
        let headers = request.headers();
        // Another host name may be one that an attacker points at this machine (DNS rebinding).
        let is_ours = |host: &str| self.hosts.iter().any(|ours| ours == host);
        if !only(headers, &header::HOST).is_some_and(is_ours) {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "open the address that `forge-search serve --http` has printed",
            ));
        }
        if headers.contains_key(header::ORIGIN) {
            let from = only(headers, &header::ORIGIN);
            let host = from.and_then(|origin| origin.strip_prefix("http://"));
            if !host.is_some_and(is_ours) {
                return Some((StatusCode::FORBIDDEN, "requests of other pages are refused"));
            }
        }
        const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
        if headers.contains_key(SITE)
            && !matches!(only(headers, &SITE), Some("same-origin" | "none"))
        {
            return Some((StatusCode::FORBIDDEN, "requests of other pages are refused"));
        }
        let path = request.uri().path();
        let given = match path {
            "/" => request
                .uri()
                .query()
                .into_iter()
                .flat_map(|query| query.split('&'))
                .find_map(|pair| pair.strip_prefix("token=")),
            path if is_api(path) => only(headers, &header::AUTHORIZATION)
                .and_then(|value| value.strip_prefix("Bearer ")),
            // The style, the scripts and the message about an unknown path hold nothing private.
            _ => return None,
        };
        match given.is_some_and(|given| self.token.is(given)) {
            true => None,
            false => Some((
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; open the address that `forge-search serve --http` \
                 has printed",
            )),
        }
    }
}

/// Returns whether a path is one of those with data of the tree, which the scripts of the page ask
/// for.
pub(super) fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Returns the value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let token = Token("0123456789abcdef".to_string());
        Guard::new("127.0.0.1:8000".parse().unwrap(), token)
    }

    /// Returns the status of a request with these headers.
    fn told(path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let refusal = guard().refusal(&request.body(()).unwrap());
        refusal.map_or(200, |(status, _)| status.as_u16())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8000");
    const TOKEN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");
    const PAGE: &str = "/?token=0123456789abcdef";

    #[test]
    fn web_whoever_has_the_token_is_let_in() {
        assert_eq!(guard().url(), format!("http://127.0.0.1:8000{PAGE}"));
        assert_eq!(told(PAGE, &[HOST]), 200);
        assert_eq!(told(&format!("{PAGE}&q=x"), &[HOST]), 200);
        assert_eq!(told("/api/search", &[HOST, TOKEN]), 200);
        assert_eq!(told(PAGE, &[("host", "localhost:8000")]), 200);
        let own = ("origin", "http://127.0.0.1:8000");
        let same = ("sec-fetch-site", "same-origin");
        assert_eq!(told("/api/search", &[HOST, TOKEN, own, same]), 200);
        // A link, or an address that was typed in.
        assert_eq!(told(PAGE, &[HOST, ("sec-fetch-site", "none")]), 200);
        // These files, and the message that a page does not exist, are the same for everybody.
        for path in ["/page.js", "/text.js", "/page.css", "/apiary", "/anything"] {
            assert_eq!(told(path, &[HOST]), 200, "{path}");
        }
    }

    #[test]
    fn web_whoever_has_none_is_not() {
        for path in [
            "/",
            "/?token=",
            "/?token=0123456789abcde",
            "/?xtoken=0123456789abcdef",
        ] {
            assert_eq!(told(path, &[HOST]), 401, "{path}");
        }
        // In the URL the token opens only the page, so another page can't use it for calls.
        assert_eq!(told("/api/search?token=0123456789abcdef", &[HOST]), 401);
        assert_eq!(told("/api/search", &[HOST]), 401);
        for path in ["/api", "/api/", "/api/anything", "/api/file?path=a"] {
            assert_eq!(told(path, &[HOST]), 401, "{path}");
        }
        for value in [
            "0123456789abcdef",
            "bearer 0123456789abcdef",
            "Bearer x",
            "Bearer ",
        ] {
            assert_eq!(told("/api/status", &[HOST, ("authorization", value)]), 401);
        }
        assert_eq!(told("/api/status", &[HOST, TOKEN, TOKEN]), 401);
    }

    #[test]
    fn web_other_names_and_other_pages_are_not_answered() {
        for host in [
            "evil.example",
            "evil.example:8000",
            "127.0.0.1",
            "127.0.0.1:8001",
            "",
        ] {
            assert_eq!(told(PAGE, &[("host", host)]), 421, "{host}");
        }
        assert_eq!(told(PAGE, &[]), 421);
        assert_eq!(told(PAGE, &[HOST, HOST]), 421);
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1:8000",
            "http://127.0.0.1:80000",
        ] {
            let from = ("origin", origin);
            assert_eq!(told("/api/search", &[HOST, TOKEN, from]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site", ""] {
            let from = ("sec-fetch-site", site);
            assert_eq!(told("/api/search", &[HOST, TOKEN, from]), 403, "{site}");
            assert_eq!(told("/page.js", &[HOST, from]), 403, "{site}");
        }
    }

    #[test]
    fn web_tokens_differ_and_are_not_shown() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.0.len(), 32);
        assert_ne!(one.0, other.0);
        assert_eq!(format!("{one:?}"), "Token");
    }
}
