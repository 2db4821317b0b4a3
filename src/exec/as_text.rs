//! Serializes bytes and paths: as text if they are UTF-8, otherwise as a list of numbers.
//!
//! Owns the functions that `#[serde(with = "…")]` names. For example, the path `src/ü` is sent as
//! `"src/ü"`, and a path with the single byte 0xff as `[255]`. Paths in answers are shown instead:
//! always as text.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

#[cfg(any(feature = "daemon", feature = "mcp"))]
pub(crate) use crate::index::names::files_or_directories;
pub(crate) use crate::index::names::shown;

/// Bytes to be serialized.
struct Sent<'a>(Cow<'a, [u8]>);

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => to.collect_seq(self.0.iter()),
        }
    }
}

impl<'a> Sent<'a> {
    fn path(path: &'a Path) -> Sent<'a> {
        Sent(path_bytes(path))
    }
}

/// Returns a path as the bytes that are sent.
pub(crate) fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Cow::Borrowed(path.as_os_str().as_bytes())
    }
    #[cfg(not(unix))]
    Cow::Owned(path.to_string_lossy().into_owned().into_bytes())
}

/// Returns the path that was sent as `bytes`.
pub(crate) fn path_from(bytes: &[u8]) -> Cow<'_, Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Cow::Borrowed(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    Cow::Owned(PathBuf::from(String::from_utf8_lossy(bytes).into_owned()))
}

/// Bytes that were deserialized.
struct Received(Vec<u8>);

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Received, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Received;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or a list of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Received, E> {
                Ok(Received(text.as_bytes().to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Received, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Received)
            }
        }

        from.deserialize_any(Bytes)
    }
}

impl Received {
    fn into_path(self) -> PathBuf {
        path_from(&self.0).into_owned()
    }
}

/// The text of a line, or many texts in one buffer.
pub(crate) mod bytes {
    use super::{Cow, Deserialize, Deserializer, Received, Sent, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        Sent(Cow::Borrowed(bytes)).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(
        from: D,
    ) -> Result<T, D::Error> {
        Received::deserialize(from).map(|received| received.0.into())
    }
}

/// One path, as text.
pub(crate) mod path {
    use super::{Deserialize, Deserializer, Path, PathBuf, Received, Sent, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Sent::path(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Received::deserialize(from).map(Received::into_path)
    }
}

/// Paths in a list.
pub(crate) mod paths {
    use super::{Deserialize, Deserializer, PathBuf, Received, Sent, Serializer};

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Sent::path(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let received = Vec::<Received>::deserialize(from)?;
        Ok(received.into_iter().map(Received::into_path).collect())
    }
}

/// A path that may be absent.
pub(crate) mod maybe_path {
    use super::{Deserialize, Deserializer, PathBuf, Received, Sent, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Sent::path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let received = Option::<Received>::deserialize(from)?;
        Ok(received.map(Received::into_path))
    }
}
