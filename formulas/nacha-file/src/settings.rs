//! Who sends the file: the reactor's configuration, checked.

use tokamak_sdk::{Faults, Value};

use crate::field::{is_digits, is_routing_number, plain};
use crate::member::Members;

/// The classes of entries that this formula writes; both have the same records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryClass {
    /// Accounts of people.
    Ppd,
    /// Accounts of companies.
    Ccd,
}

impl EntryClass {
    /// The code in the batch header.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Ppd => "PPD",
            Self::Ccd => "CCD",
        }
    }

    fn parse(code: &str) -> Option<Self> {
        [Self::Ppd, Self::Ccd].into_iter().find(|class| class.code() == code)
    }
}

/// How the file is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReturnFile {
    /// As a token.
    Token,
    /// As text.
    Raw,
}

impl ReturnFile {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "token" => Some(Self::Token),
            "raw" => Some(Self::Raw),
            _ => None,
        }
    }
}

/// The configuration, as the file has it.
pub(crate) struct Settings {
    pub(crate) immediate_destination: String,
    pub(crate) immediate_destination_name: String,
    pub(crate) immediate_origin: String,
    pub(crate) immediate_origin_name: String,
    pub(crate) company_name: String,
    pub(crate) company_identification: String,
    pub(crate) company_entry_description: String,
    pub(crate) originating_dfi_identification: String,
    pub(crate) entry_class: EntryClass,
    pub(crate) return_file: ReturnFile,
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(configuration: &Value, faults: &mut Faults) -> Option<Self> {
        let mut given = Members::of(configuration, "configuration".to_owned(), faults)?;
        let mut name = |member| given.text(member, plain, "must have letters or digits");
        let destination_name = name("immediate_destination_name");
        let origin_name = name("immediate_origin_name");
        let company_name = name("company_name");
        let description = name("company_entry_description");

        let mut identification =
            |member| given.text(member, short_plain, "must have 1 to 10 characters");
        let origin = identification("immediate_origin");
        let company = identification("company_identification");

        let destination = given.text(
            "immediate_destination",
            |number| Some(number.trim()).filter(|it| is_routing_number(it)).map(str::to_owned),
            "must be a routing number, nine digits with a right checksum",
        );
        let odfi = given.text(
            "originating_dfi_identification",
            |number| is_digits(number, 8..=8).then(|| number.to_owned()),
            "must have eight digits",
        );
        let entry_class =
            given.choice("standard_entry_class_code", EntryClass::parse, "must be `PPD` or `CCD`");
        let return_file = match given.get("return_file") {
            None => Some(ReturnFile::Token),
            Some(_) => given.choice("return_file", ReturnFile::parse, "must be `token` or `raw`"),
        };

        Some(Self {
            immediate_destination: destination?,
            immediate_destination_name: destination_name?,
            immediate_origin: origin?,
            immediate_origin_name: origin_name?,
            company_name: company_name?,
            company_identification: company?,
            company_entry_description: description?,
            originating_dfi_identification: odfi?,
            entry_class: entry_class?,
            return_file: return_file?,
        })
    }
}

/// An identification as the format takes it.
fn short_plain(text: &str) -> Option<String> {
    plain(text).filter(|plain| plain.chars().count() <= 10)
}
