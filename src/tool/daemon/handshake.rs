//! How a client and a daemon come to terms (`IPC.MUST.001`).

use super::reply::{ErrorCode, Welcome};
use super::request::Hello;

/// The versions of the protocol that this program speaks, ascending.
pub const PROTOCOL_VERSIONS: [i64; 1] = [1];

/// Whom a daemon answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The store: one tree.
    pub store_id: String,
    /// The configuration in force.
    pub config_fingerprint: String,
}

/// Decides about a handshake.
///
/// # Errors
///
/// Which error the client gets, and why: [`ErrorCode::Incompatible`] without a common version, which is looked at first, since another
/// version may mean other things by the rest; [`ErrorCode::InvalidRequest`] for another store or another configuration.
pub fn negotiate(
    hello: &Hello,
    own: &Store,
    versions: &[i64],
) -> Result<Welcome, (ErrorCode, String)> {
    let offered = hello.versions();
    let common = versions.iter().filter(|version| offered.contains(version));
    let Some(version) = common.max() else {
        let message = format!(
            "no common protocol version: this daemon speaks {versions:?}; use a client and a daemon of one release"
        );
        return Err((ErrorCode::Incompatible, message));
    };
    for (name, theirs, ours) in [
        ("store_id", &hello.store_id, &own.store_id),
        (
            "config_fingerprint",
            &hello.config_fingerprint,
            &own.config_fingerprint,
        ),
    ] {
        if theirs != ours {
            let message = format!("{name} is not that of this daemon, which is {ours}");
            return Err((ErrorCode::InvalidRequest, message));
        }
    }
    Ok(Welcome::new(*version, versions, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Store {
        Store {
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
    fn ipc_must_001_the_highest_common_version_is_chosen() {
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
                None => assert_eq!(welcome.unwrap_err().0, ErrorCode::Incompatible),
            }
        }
        let single = Hello {
            protocol_versions: None,
            protocol_version: Some(1),
            ..hello(&[])
        };
        assert!(negotiate(&single, &own(), &PROTOCOL_VERSIONS).is_ok());
    }

    #[test]
    fn ggrep_another_store_or_configuration_is_an_invalid_request() {
        for (store_id, config, name) in [("x", "c", "store_id"), ("s", "x", "config_fingerprint")] {
            let other = Hello {
                store_id: store_id.to_string(),
                config_fingerprint: config.to_string(),
                ..hello(&[1])
            };
            let (code, message) = negotiate(&other, &own(), &PROTOCOL_VERSIONS).unwrap_err();
            assert_eq!(code, ErrorCode::InvalidRequest);
            assert!(message.starts_with(name), "{message}");
            // A client of another release is told of that, whatever else it says.
            let older = Hello {
                protocol_versions: Some(vec![0]),
                ..other
            };
            let (code, _) = negotiate(&older, &own(), &PROTOCOL_VERSIONS).unwrap_err();
            assert_eq!(code, ErrorCode::Incompatible);
        }
    }
}
