//! The records of the file: widths and order as the NACHA format has them.
//!
//! Each function is one record, its fields from left to right; their widths sum to 94. What goes in has
//! been checked: nothing here refuses.

use serde::Serialize;
use tokamak_sdk::clock::Minute;

use crate::date::Date;
use crate::entry::{Entry, Kind};
use crate::field::{RECORD_CHARS, Record};
use crate::settings::Settings;

/// Records of a block; the file is filled up to a whole one.
const BLOCKING_FACTOR: usize = 10;
/// The number of the only batch.
const BATCH_NUMBER: u64 = 1;

/// A file to be written.
pub(crate) struct File {
    pub(crate) settings: Settings,
    pub(crate) entries: Vec<Entry>,
    pub(crate) effective_entry_date: Date,
    pub(crate) id_modifier: char,
    pub(crate) created: Minute,
}

/// What the control records say of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) entry_count: u64,
    pub(crate) total_debit_cents: u64,
    pub(crate) total_credit_cents: u64,
    /// Ten digits.
    pub(crate) entry_hash: String,
    pub(crate) batch_count: u64,
    pub(crate) block_count: u64,
}

/// The sums over the entries.
struct Totals {
    entries: u64,
    hash: u64,
    debit_cents: u64,
    credit_cents: u64,
}

impl Totals {
    fn of(entries: &[Entry]) -> Self {
        let mut totals = Self { entries: 0, hash: 0, debit_cents: 0, credit_cents: 0 };
        for entry in entries {
            let dfi = entry.routing_number.get(..8).and_then(|digits| digits.parse::<u64>().ok());
            totals.entries += 1;
            // Of a longer sum, the ten digits at the right.
            totals.hash = (totals.hash + dfi.unwrap_or_default()) % 10_000_000_000;
            match entry.kind {
                Kind::Debit => totals.debit_cents += entry.amount_cents,
                Kind::Credit => totals.credit_cents += entry.amount_cents,
            }
        }
        totals
    }
}

impl File {
    /// The text of the file, each record a line, and what its control record says.
    pub(crate) fn write(&self) -> (String, Summary) {
        let totals = Totals::of(&self.entries);
        let record_count = self.entries.len() + 4;
        let block_count = record_count.div_ceil(BLOCKING_FACTOR);
        let blocks = u64::try_from(block_count).unwrap_or(u64::MAX);

        let mut text = String::with_capacity(block_count * BLOCKING_FACTOR * (RECORD_CHARS + 1));
        let mut write = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        write(&self.file_header());
        write(&self.batch_header());
        for (sequence, entry) in (1..).zip(&self.entries) {
            write(&self.entry_detail(entry, sequence));
        }
        write(&self.batch_control(&totals));
        write(&file_control(&totals, blocks));
        let nines = "9".repeat(RECORD_CHARS);
        for _ in record_count..block_count * BLOCKING_FACTOR {
            write(&nines);
        }

        let summary = Summary {
            entry_count: totals.entries,
            total_debit_cents: totals.debit_cents,
            total_credit_cents: totals.credit_cents,
            entry_hash: format!("{:010}", totals.hash),
            batch_count: 1,
            block_count: blocks,
        };
        (text, summary)
    }

    fn file_header(&self) -> String {
        let Minute { hour, minute, .. } = self.created;
        Record::of_type('1')
            .text("01", 2) // priority
            .right(&self.settings.immediate_destination, 10)
            .right(&self.settings.immediate_origin, 10)
            .text(&Date::of(self.created).six_digits(), 6)
            .number(u64::from(hour * 100 + minute), 4)
            .text(&self.id_modifier.to_string(), 1)
            .text("094", 3) // record size
            .text("10", 2) // blocking factor
            .text("1", 1) // format
            .text(&self.settings.immediate_destination_name, 23)
            .text(&self.settings.immediate_origin_name, 23)
            .blank(8) // reference code
            .into_line()
    }

    fn batch_header(&self) -> String {
        Record::of_type('5')
            .number(self.service_class(), 3)
            .text(&self.settings.company_name, 16)
            .blank(20) // company discretionary data
            .text(&self.settings.company_identification, 10)
            .text(self.settings.entry_class.code(), 3)
            .text(&self.settings.company_entry_description, 10)
            .blank(6) // company descriptive date
            .text(&self.effective_entry_date.six_digits(), 6)
            .blank(3) // settlement date, set by the operator
            .text("1", 1) // originator status: a bank under these rules
            .text(&self.settings.originating_dfi_identification, 8)
            .number(BATCH_NUMBER, 7)
            .into_line()
    }

    fn entry_detail(&self, entry: &Entry, sequence: u64) -> String {
        Record::of_type('6')
            .number(entry.transaction_code, 2)
            .text(&entry.routing_number, 9) // eight digits and the check digit
            .text(&entry.account_number, 17)
            .number(entry.amount_cents, 10)
            .text(&entry.individual_id, 15)
            .text(&entry.name, 22)
            .blank(2) // discretionary data
            .text("0", 1) // no addenda follow
            .text(&self.settings.originating_dfi_identification, 8)
            .number(sequence, 7) // with the field before: the trace number
            .into_line()
    }

    fn batch_control(&self, totals: &Totals) -> String {
        Record::of_type('8')
            .number(self.service_class(), 3)
            .number(totals.entries, 6)
            .number(totals.hash, 10)
            .number(totals.debit_cents, 12)
            .number(totals.credit_cents, 12)
            .text(&self.settings.company_identification, 10)
            .blank(19) // message authentication code
            .blank(6) // reserved
            .text(&self.settings.originating_dfi_identification, 8)
            .number(BATCH_NUMBER, 7)
            .into_line()
    }

    /// 220 for credits alone, 225 for debits alone, 200 for both.
    fn service_class(&self) -> u64 {
        let has = |kind| self.entries.iter().any(|entry| entry.kind == kind);
        match (has(Kind::Credit), has(Kind::Debit)) {
            (true, false) => 220,
            (false, true) => 225,
            _ => 200,
        }
    }
}

fn file_control(totals: &Totals, block_count: u64) -> String {
    Record::of_type('9')
        .number(1, 6) // batches
        .number(block_count, 6)
        .number(totals.entries, 8)
        .number(totals.hash, 10)
        .number(totals.debit_cents, 12)
        .number(totals.credit_cents, 12)
        .blank(39) // reserved
        .into_line()
}
