//! Tests that invalid leases and keys are refused.

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use forge_search::internal::tool::executor::lease::{KeyRing, PublicKey};

use super::*;

fn ring(keys: &[&SecretKey]) -> KeyRing {
    KeyRing::new(keys.iter().map(|key| key.public().unwrap()).collect())
}

#[test]
fn leases_are_read_as_they_were_signed() {
    let key = SecretKey::generate().unwrap();
    let lease = lease("t", "SEARCH_FILES", "docs");
    let token = key.sign(&lease).unwrap();
    assert!(token.starts_with("v4.public."));
    assert_eq!(ring(&[&key]).verify(&token), Ok(lease));
    // Keys stay the same when they are written and parsed again.
    let again = SecretKey::parse(&key.to_paserk().unwrap()).unwrap();
    let public = PublicKey::parse(&again.public().unwrap().to_paserk().unwrap()).unwrap();
    assert_eq!(public.id(), key.public().unwrap().id());
}

#[test]
fn keys_of_leases_are_found_by_id_so_that_keys_can_be_rotated() {
    let (old, new, other) = (
        SecretKey::generate().unwrap(),
        SecretKey::generate().unwrap(),
        SecretKey::generate().unwrap(),
    );
    let lease = lease("t", "SEARCH_FILES", "docs");
    let both = ring(&[&old, &new]);
    assert!(both.verify(&old.sign(&lease).unwrap()).is_ok());
    assert!(both.verify(&new.sign(&lease).unwrap()).is_ok());
    assert_eq!(
        both.verify(&other.sign(&lease).unwrap()),
        Err(Reason::KeyUnknown)
    );
    assert_eq!(
        ring(&[&new]).verify(&old.sign(&lease).unwrap()),
        Err(Reason::KeyUnknown)
    );
    assert_eq!(
        ring(&[]).verify(&new.sign(&lease).unwrap()),
        Err(Reason::KeyUnknown)
    );
    // The footer of one token and the signature of another.
    let (ours, theirs) = (old.sign(&lease).unwrap(), new.sign(&lease).unwrap());
    let footer = theirs.rsplit('.').next().unwrap();
    let (start, _) = ours.rsplit_once('.').unwrap();
    assert_eq!(
        both.verify(&format!("{start}.{footer}")),
        Err(Reason::SignatureInvalid)
    );
    assert_eq!(both.verify(start), Err(Reason::KeyUnknown));
}

#[test]
fn only_one_token_format_is_a_lease() {
    let key = SecretKey::generate().unwrap();
    let token = key.sign(&lease("t", "SEARCH_FILES", "docs")).unwrap();
    let ring = ring(&[&key]);
    let swapped = |header: &str| token.replace("v4.public.", header);
    for wrong in [
        String::new(),
        "v4.public.".to_string(),
        swapped("v4.local."),
        swapped("v3.public."),
        swapped("v2.public."),
        swapped("V4.public."),
        format!(" {token}"),
        format!("{token}\n"),
        format!("{token}="),
        format!("{token}.x"),
        "eyJhbGciOiJub25lIn0.eyJ0YXNrX2lkIjoidCJ9.".to_string(),
        "v4.public.".to_string() + &"A".repeat(1 << 17),
    ] {
        let refused = ring.verify(&wrong).unwrap_err();
        assert_eq!(
            refused.code(),
            forge_search::internal::tool::executor::failure::Code::InvalidLease,
            "{wrong}"
        );
    }
}

#[test]
fn times_of_leases_are_utc_and_written_in_one_way() {
    let key = SecretKey::generate().unwrap();
    let ring = ring(&[&key]);
    let claims = |time: &str| {
        let lease: Result<Lease, _> = serde_json::from_value(json!({
            "task_id": "t", "capability_id": "SEARCH_FILES", "target_scope": "s", "expires_at": time,
        }));
        lease
            .ok()
            .map(|lease| ring.verify(&key.sign(&lease).unwrap()).unwrap().expires_at)
    };
    for time in ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5Z"] {
        assert_eq!(claims(time), Some(at(time)));
    }
    for time in [
        "2026-01-01T12:00:00+00:00",
        "2026-01-01 12:00:00Z",
        "2026-01-01T12Z",
        "2026-01-01T12:00:00[Europe/Berlin]",
        "2026-02-30T12:00:00Z",
        "tomorrow",
        "",
    ] {
        assert_eq!(claims(time), None, "{time}");
    }
    let more = json!({
        "task_id": "t", "capability_id": "SEARCH_FILES", "target_scope": "s",
        "expires_at": "2026-01-01T12:00:00Z", "nbf": "2026-01-01T12:00:00Z",
    });
    assert!(
        serde_json::from_value::<Lease>(more).is_err(),
        "what might limit it is not passed over"
    );
}

#[test]
fn no_mutated_token_of_ten_thousand_is_accepted() {
    let key = SecretKey::generate().unwrap();
    let lease = lease("t", "SEARCH_FILES", "docs");
    let token = key.sign(&lease).unwrap();
    let ring = ring(&[&key]);
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut next = |below: usize| (rng.next_u64() % below as u64) as usize;
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=";
    let mut tried = 0;
    // Each position gets another digit once. Then random mutations follow.
    for at in 0..token.len() {
        let mut mutated = token.clone().into_bytes();
        mutated[at] = digits[next(digits.len())];
        tried += usize::from(mutated != token.as_bytes());
        if mutated != token.as_bytes() {
            let mutated = String::from_utf8(mutated).unwrap();
            assert!(ring.verify(&mutated).is_err(), "{mutated}");
        }
    }
    while tried < 10_000 {
        let mut mutated = token.clone().into_bytes();
        for _ in 0..=next(4) {
            let at = next(mutated.len());
            match next(5) {
                0 => mutated[at] = digits[next(digits.len())],
                1 => {
                    mutated.remove(at);
                }
                2 => mutated.insert(at, digits[next(digits.len())]),
                3 => mutated.swap(at, 0),
                _ => mutated[at] ^= 1 << next(7),
            }
        }
        let mutated = String::from_utf8_lossy(&mutated).into_owned();
        if mutated != token {
            assert!(ring.verify(&mutated).is_err(), "{mutated}");
            tried += 1;
        }
    }
    assert_eq!(ring.verify(&token), Ok(lease));
}

#[test]
fn malformed_lease_keys_are_refused() {
    for text in [
        "",
        "k4.public.",
        "k4.public.AAAA",
        "k4.secret.AAAA",
        "k3.public.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "k4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "nonsense",
    ] {
        assert!(PublicKey::parse(text).is_err(), "{text}");
        assert!(SecretKey::parse(text).is_err(), "{text}");
    }
    // The signature library would abort the process on a key of zeros.
    assert!(SecretKey::parse(&format!("k4.secret.{}", "A".repeat(86))).is_err());
    let mut world = World::new();
    world.config.keys.push("k4.public.AAAA".to_string());
    assert!(Executor::new(&world.config, world.path("r.db"), in_memory).is_err());
}
