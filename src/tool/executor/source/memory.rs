//! Records in memory, for tests and for callers with a source of their own (EXEC §11).

use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Key, Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// Records that are in memory already.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    /// Keys, and fields with their texts.
    pub records: Vec<(String, Vec<(String, String)>)>,
}

impl Source for InMemory {
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut fields = Fields::default();
        for (nth, (key, texts)) in self.records.iter().enumerate() {
            fields.clear();
            for (name, text) in texts {
                fields.push(name, text);
            }
            visit(Record {
                fields: &fields,
                id: &|| key.clone(),
                order: &|| Order::Key(Key::written(key), Place::Nth(nth as u64)),
            });
        }
        Ok(0)
    }
}
