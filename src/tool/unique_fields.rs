//! A JSON object in which no field occurs twice, since parsers disagree about which one counts.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The fields of an object, by name. Only the executor reads them.
#[derive(Debug)]
#[cfg_attr(not(all(unix, feature = "executor")), allow(dead_code))]
pub(super) struct UniqueFields<V>(pub(super) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueFields<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Fields<V> {
    type Value = UniqueFields<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueFields<V>, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, V>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("the field `{name}` occurs twice")));
            }
            fields.insert(name, value);
        }
        Ok(UniqueFields(fields))
    }
}
