//! Leases: signed permissions to execute one task.
//!
//! This module owns the keys, the token format and the claims of a lease. The format is PASETO
//! v4.public, in which the sender can't choose an algorithm. Only the signature and the form of the
//! claims are checked here. The executor compares them with the clock and the manifest.

use jiff::Timestamp;
use pasetors::Public;
use pasetors::keys::{AsymmetricKeyPair, AsymmetricPublicKey, AsymmetricSecretKey, Generate};
use pasetors::paserk::{FormatAsPaserk, Id};
use pasetors::token::UntrustedToken;
use pasetors::version4::{PublicToken, V4};
use serde::{Deserialize, Serialize};

use super::failure::Reason;

/// The longest token, in bytes.
pub const MAX_TOKEN: usize = 64 << 10;

/// The longest claim, in bytes.
const MAX_CLAIM: usize = 1_024;

/// The claims of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The only task that may be executed.
    pub task_id: String,
    /// The capability that the task may use.
    pub capability_id: String,
    /// The scope that the task may search.
    pub target_scope: String,
    /// The expiry: the lease is valid at earlier times.
    #[serde(deserialize_with = "utc")]
    pub expires_at: Timestamp,
    /// The issuer. Like the next two claims, it has no effect on the permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The time of issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<String>,
    /// The id of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
}

/// The footer of a token: it names the key of the signature.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    kid: String,
}

/// Parses an RFC 3339 time in UTC. Other forms are refused, since other programs might read them
/// differently.
fn utc<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_plain = |b: u8| b.is_ascii_digit() || b"-:.TZ".contains(&b);
    let is_utc = text.len() >= "2026-01-01T12:00:00Z".len()
        && text.ends_with('Z')
        && text.as_bytes().get(10) == Some(&b'T')
        && text.bytes().all(is_plain);
    let time = text.parse().ok().filter(|_| is_utc);
    time.ok_or_else(|| serde::de::Error::custom("not a time in UTC"))
}

/// Parses an object; refuses a list of its values, which `serde` would accept.
fn object<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Option<T> {
    let is_object = json.trim_ascii_start().starts_with(b"{");
    serde_json::from_slice(json).ok().filter(|_| is_object)
}

/// The reason why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not in the format.
    #[error(
        "is not a key for leases: a public one starts with `k4.public.`, a secret one with `k4.secret.`; `forge-search lease keygen` makes both"
    )]
    Malformed,
    /// The system has no random numbers.
    #[error("no key can be generated: the system provides no random numbers")]
    NoRandom,
}

/// A key that verifies leases.
#[derive(Clone, Debug)]
pub struct PublicKey {
    key: AsymmetricPublicKey<V4>,
    id: String,
}

impl PublicKey {
    /// Parses a key in PASERK format (`k4.public.…`).
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`].
    pub fn parse(text: &str) -> Result<PublicKey, KeyError> {
        let key = AsymmetricPublicKey::<V4>::try_from(text).map_err(|_| KeyError::Malformed)?;
        PublicKey::of(key)
    }

    fn of(key: AsymmetricPublicKey<V4>) -> Result<PublicKey, KeyError> {
        let id = paserk(&Id::from(&key))?;
        Ok(PublicKey { key, id })
    }

    /// Returns the key's PASERK id (`k4.pid.…`), which footers contain.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Formats the key in PASERK format.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`], which does not occur for a parsed or generated key.
    pub fn to_paserk(&self) -> Result<String, KeyError> {
        paserk(&self.key)
    }
}

/// A key that signs leases.
#[derive(Debug)]
pub struct SecretKey(AsymmetricSecretKey<V4>);

impl SecretKey {
    /// Generates a key from random numbers of the system.
    ///
    /// # Errors
    ///
    /// [`KeyError::NoRandom`].
    pub fn generate() -> Result<SecretKey, KeyError> {
        let pair = AsymmetricKeyPair::<V4>::generate().map_err(|_| KeyError::NoRandom)?;
        Ok(SecretKey(pair.secret))
    }

    /// Parses a key in PASERK format (`k4.secret.…`).
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`].
    pub fn parse(text: &str) -> Result<SecretKey, KeyError> {
        // The library panics on a seed of zeros, whose first 42 digits are these.
        let zeros = text.strip_prefix("k4.secret.");
        if zeros
            .is_some_and(|digits| digits.len() < 43 || digits.bytes().take(42).all(|b| b == b'A'))
        {
            return Err(KeyError::Malformed);
        }
        let key = AsymmetricSecretKey::<V4>::try_from(text).map_err(|_| KeyError::Malformed)?;
        Ok(SecretKey(key))
    }

    /// Formats the key in PASERK format.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`], which does not occur for a parsed or generated key.
    pub fn to_paserk(&self) -> Result<String, KeyError> {
        paserk(&self.0)
    }

    /// Returns the key that verifies this key's signatures.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`], which does not occur for a parsed or generated key.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        let key = AsymmetricPublicKey::try_from(&self.0).map_err(|_| KeyError::Malformed)?;
        PublicKey::of(key)
    }

    /// Signs a lease.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`], which does not occur for a parsed or generated key.
    pub fn sign(&self, lease: &Lease) -> Result<String, KeyError> {
        let claims = serde_json::to_vec(lease).map_err(|_| KeyError::Malformed)?;
        self.sign_bytes(&claims)
    }

    /// Signs any bytes as if they were claims.
    fn sign_bytes(&self, claims: &[u8]) -> Result<String, KeyError> {
        let footer = Footer {
            kid: self.public()?.id,
        };
        let footer = serde_json::to_vec(&footer).map_err(|_| KeyError::Malformed)?;
        PublicToken::sign(&self.0, claims, Some(&footer), None).map_err(|_| KeyError::Malformed)
    }
}

fn paserk(key: &dyn FormatAsPaserk) -> Result<String, KeyError> {
    let mut text = String::new();
    key.fmt(&mut text).map_err(|_| KeyError::Malformed)?;
    Ok(text)
}

/// The configured keys: several, so that keys can be rotated.
#[derive(Clone, Debug, Default)]
pub struct KeyRing(Vec<PublicKey>);

impl KeyRing {
    /// Builds a key ring.
    pub fn new(keys: Vec<PublicKey>) -> KeyRing {
        KeyRing(keys)
    }

    /// Verifies the signature of a token, and returns its claims (EXEC §2, first check).
    ///
    /// # Errors
    ///
    /// [`Reason::TokenMalformed`], [`Reason::KeyUnknown`], [`Reason::SignatureInvalid`] or
    /// [`Reason::ClaimsMalformed`].
    pub fn verify(&self, token: &str) -> Result<Lease, Reason> {
        if token.len() > MAX_TOKEN {
            return Err(Reason::TokenMalformed);
        }
        let untrusted =
            UntrustedToken::<Public, V4>::try_from(token).map_err(|_| Reason::TokenMalformed)?;
        // The untrusted footer only selects a key. The signature covers it, too.
        let footer: Footer = object(untrusted.untrusted_footer()).ok_or(Reason::KeyUnknown)?;
        let mut keys = self.0.iter();
        let key = keys
            .find(|key| key.id == footer.kid)
            .ok_or(Reason::KeyUnknown)?;
        let trusted = PublicToken::verify(&key.key, &untrusted, None, None)
            .map_err(|_| Reason::SignatureInvalid)?;
        let lease: Lease = object(trusted.payload().as_bytes()).ok_or(Reason::ClaimsMalformed)?;
        let claims = [&lease.task_id, &lease.capability_id, &lease.target_scope];
        match claims
            .iter()
            .all(|claim| (1..=MAX_CLAIM).contains(&claim.len()))
        {
            true => Ok(lease),
            false => Err(Reason::ClaimsMalformed),
        }
    }
}

/// Returns the claims and the footer of a token without verifying it. For inspection only.
pub fn unverified(token: &str) -> Option<(serde_json::Value, serde_json::Value)> {
    let untrusted = UntrustedToken::<Public, V4>::try_from(token).ok()?;
    let claims = serde_json::from_slice(untrusted.untrusted_payload()).ok()?;
    let footer = serde_json::from_slice(untrusted.untrusted_footer()).unwrap_or_default();
    Some((claims, footer))
}
