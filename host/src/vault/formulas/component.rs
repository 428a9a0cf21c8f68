//! A formula's component, apart from the formula so that listing reads no code.

use std::sync::Arc;

use crate::crypto::wiped::{Wiped, WipedBuffer};
use crate::model::id::FormulaId;
use crate::store::Kind;
use crate::vault::Error;
use crate::vault::record::{Entity, kind};

/// A formula's code.
pub struct Component {
    /// The formula it belongs to.
    pub(super) formula_id: FormulaId,
    /// When the formula was made, in milliseconds since the Unix epoch.
    pub(super) created_ms: u64,
    /// The code. It is large, and stored more than once when a change is made anew.
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Entity for Component {
    const KIND: Kind = kind::COMPONENT;
    const NOUN: &'static str = "component";

    fn id(&self) -> String {
        self.formula_id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.created_ms
    }

    fn weight(text: &[u8]) -> usize {
        text.len()
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        let mut text = WipedBuffer::with_capacity(24 + self.bytes.len());
        text.extend(self.formula_id.0.as_bytes());
        text.extend(&self.created_ms.to_be_bytes());
        text.extend(&self.bytes);
        Ok(text.into_bytes())
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        let cut = || Error::internal("a stored component is cut short");
        let (id, rest) = text.split_first_chunk::<16>().ok_or_else(cut)?;
        let (created_ms, bytes) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        Ok(Self {
            formula_id: FormulaId(uuid::Uuid::from_bytes(*id)),
            created_ms: u64::from_be_bytes(*created_ms),
            bytes: Arc::new(bytes.to_vec()),
        })
    }
}
