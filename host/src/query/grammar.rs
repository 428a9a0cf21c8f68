//! The grammar, as `grammar.pest` has it.

#![allow(missing_docs, clippy::allow_attributes_without_reason, reason = "the derive writes these")]

/// Splits a query into what the rules name.
#[derive(pest_derive::Parser)]
#[grammar = "query/grammar.pest"]
pub struct Grammar;
