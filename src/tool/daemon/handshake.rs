//! The handshake: client and daemon agree on a protocol version, a tree and a configuration.

use serde_json::Value;

use super::reply::{ErrorCode, Failure, Welcome};
use super::request::Hello;

/// The versions of the protocol that this program speaks, ascending. Version 2 added `related` and
/// `budget` to questions. All else is as in version 1.
pub const PROTOCOL_VERSIONS: [i64; 2] = [1, 2];

/// The tree and the configuration that a daemon serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedTree {
    /// The id of the tree.
    pub store_id: String,
    /// The fingerprint of the configuration in force.
    pub config_fingerprint: String,
}

impl ServedTree {
    /// Returns the first field that differs from the other side: its name, this value and the other
    /// one.
    fn differs_from<'a>(
        &'a self,
        store_id: &'a str,
        config_fingerprint: &'a str,
    ) -> Option<(&'static str, &'a str, &'a str)> {
        let both = [
            ("store_id", self.store_id.as_str(), store_id),
            (
                "config_fingerprint",
                self.config_fingerprint.as_str(),
                config_fingerprint,
            ),
        ];
        both.into_iter().find(|(_, ours, theirs)| ours != theirs)
    }
}

/// Checks the first message of a connection, which may be any bytes.
///
/// # Errors
///
/// The failure that the client gets:
/// - [`ErrorCode::Incompatible`] without a common version. The version is checked first, since
///   fields may differ or have another meaning in another version.
/// - [`ErrorCode::InvalidRequest`] for a message that is no handshake, for another tree and for
///   another configuration.
pub fn receive(
    payload: &[u8],
    own: &ServedTree,
    versions: &[i64],
) -> Result<(Hello, Welcome), Failure> {
    if let Some(offered) = offered(payload) {
        highest_common(&offered, versions)?;
    }
    let hello = Hello::parse(payload)
        .map_err(|refused| Failure::new(ErrorCode::InvalidRequest, refused.message))?;
    let welcome = negotiate(&hello, own, versions)?;
    Ok((hello, welcome))
}

/// Returns the versions that a message offers, also if it is a handshake of another version.
fn offered(payload: &[u8]) -> Option<Vec<i64>> {
    let message: Value = serde_json::from_slice(payload).ok()?;
    match (
        message.get("protocol_versions"),
        message.get("protocol_version"),
    ) {
        (Some(Value::Array(all)), None) if !all.is_empty() => {
            all.iter().map(Value::as_i64).collect()
        }
        (None, Some(one)) => Some(vec![one.as_i64()?]),
        _ => None,
    }
}

fn highest_common(offered: &[i64], versions: &[i64]) -> Result<i64, Failure> {
    let common = versions.iter().filter(|version| offered.contains(version));
    common.max().copied().ok_or_else(|| {
        let message = format!(
            "no common protocol version: this daemon speaks {versions:?}; use a client and a \
             daemon of the same release"
        );
        Failure::new(ErrorCode::Incompatible, message)
    })
}

/// Answers a well-formed handshake.
fn negotiate(hello: &Hello, own: &ServedTree, versions: &[i64]) -> Result<Welcome, Failure> {
    let version = highest_common(&hello.versions(), versions)?;
    match own.differs_from(&hello.store_id, &hello.config_fingerprint) {
        Some((name, ours, _)) => {
            let message = format!("{name} differs from the daemon's {name}, {ours}");
            Err(Failure::new(ErrorCode::InvalidRequest, message))
        }
        None => Ok(Welcome::new(version, versions, own)),
    }
}

/// Checks, as a client, that the daemon is the expected one.
///
/// # Errors
///
/// [`ErrorCode::Incompatible`] for a version that this program does not speak.
/// [`ErrorCode::InvalidRequest`] for another tree or another configuration. In both cases the
/// client must not send a request.
pub fn check(welcome: &Welcome, meant: &ServedTree) -> Result<(), Failure> {
    if !PROTOCOL_VERSIONS.contains(&welcome.protocol_version) {
        let message = format!(
            "the daemon speaks version {} of the protocol, but this client {PROTOCOL_VERSIONS:?}; \
             use a client and a daemon of the same release",
            welcome.protocol_version
        );
        return Err(Failure::new(ErrorCode::Incompatible, message));
    }
    match meant.differs_from(&welcome.store_id, &welcome.config_fingerprint) {
        Some((name, _, theirs)) => {
            let message = format!("the daemon serves another {name}, {theirs}");
            Err(Failure::new(ErrorCode::InvalidRequest, message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> ServedTree {
        ServedTree {
            store_id: "s".to_string(),
            config_fingerprint: "c".to_string(),
        }
    }

    fn hello(versions: &[i64]) -> Hello {
        Hello {
            protocol_versions: Some(versions.to_vec()),
            protocol_version: None,
            store_id: "s".to_string(),
            config_fingerprint: "c".to_string(),
            client_id: None,
            client_capabilities: None,
        }
    }

    #[test]
    fn the_highest_common_protocol_version_is_chosen() {
        for (theirs, ours, chosen) in [
            (&[1][..], &[1][..], Some(1)),
            (&[3, 1, 2], &[1, 2], Some(2)),
            (&[2, 1], &[1, 2, 3], Some(2)),
            (&[-1, 9], &[1, 9], Some(9)),
            (&[2], &[1], None),
            (&[0, 2], &[1], None),
        ] {
            let welcome = negotiate(&hello(theirs), &own(), ours);
            match chosen {
                Some(version) => {
                    let welcome = welcome.unwrap();
                    assert_eq!(welcome.protocol_version, version, "{theirs:?} {ours:?}");
                    assert_eq!(welcome.protocol_versions, ours);
                }
                None => assert_eq!(welcome.unwrap_err().error.code, ErrorCode::Incompatible),
            }
        }
        let single = Hello {
            protocol_versions: None,
            protocol_version: Some(2),
            ..hello(&[])
        };
        assert!(negotiate(&single, &own(), &PROTOCOL_VERSIONS).is_ok());
    }

    #[test]
    fn a_handshake_for_another_store_or_configuration_is_an_invalid_request() {
        for (store_id, config, name) in [("x", "c", "store_id"), ("s", "x", "config_fingerprint")] {
            let other = Hello {
                store_id: store_id.to_string(),
                config_fingerprint: config.to_string(),
                ..hello(&[2])
            };
            let failure = negotiate(&other, &own(), &PROTOCOL_VERSIONS).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::InvalidRequest);
            assert!(failure.error.message.starts_with(name), "{failure:?}");
            // A client of another release gets `Incompatible`, even if other fields are wrong as
            // well.
            let older = Hello {
                protocol_versions: Some(vec![0]),
                ..other
            };
            let failure = negotiate(&older, &own(), &PROTOCOL_VERSIONS).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::Incompatible);
        }
    }

    #[test]
    fn a_client_of_another_release_is_told_so_whatever_else_it_sends() {
        for (message, code) in [
            (
                r#"{"protocol_versions":[3],"session":"new"}"#,
                ErrorCode::Incompatible,
            ),
            (r#"{"protocol_version":0}"#, ErrorCode::Incompatible),
            (
                r#"{"protocol_versions":[3,2],"session":"new"}"#,
                ErrorCode::InvalidRequest,
            ),
            (r#"{"protocol_versions":[]}"#, ErrorCode::InvalidRequest),
            (r#"{"protocol_versions":["2"]}"#, ErrorCode::InvalidRequest),
            ("[2]", ErrorCode::InvalidRequest),
            ("", ErrorCode::InvalidRequest),
        ] {
            let failure = receive(message.as_bytes(), &own(), &PROTOCOL_VERSIONS).unwrap_err();
            assert_eq!(failure.error.code, code, "{message}");
        }
    }

    #[test]
    fn a_client_checks_which_daemon_has_answered() {
        let welcome = negotiate(&hello(&[2]), &own(), &PROTOCOL_VERSIONS).unwrap();
        assert_eq!(check(&welcome, &own()), Ok(()));
        let newer = Welcome {
            protocol_version: 7,
            ..welcome.clone()
        };
        assert_eq!(
            check(&newer, &own()).unwrap_err().error.code,
            ErrorCode::Incompatible
        );
        for other in [
            Welcome {
                store_id: "x".to_string(),
                ..welcome.clone()
            },
            Welcome {
                config_fingerprint: "x".to_string(),
                ..welcome
            },
        ] {
            let failure = check(&other, &own()).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::InvalidRequest);
        }
    }
}
