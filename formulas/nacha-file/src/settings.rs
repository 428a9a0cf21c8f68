//! Who sends the file: the reactor's configuration, checked.

use serde::Deserialize;
use tokamak_sdk::Faults;

use crate::field::{is_digits, is_routing_number, plain};

/// The configuration, as the reactor's owner writes it.
#[derive(Deserialize)]
pub(crate) struct Configuration {
    immediate_destination: String,
    immediate_destination_name: String,
    immediate_origin: String,
    immediate_origin_name: String,
    company_name: String,
    company_identification: String,
    company_entry_description: String,
    originating_dfi_identification: String,
    standard_entry_class_code: EntryClass,
    #[serde(default)]
    pub(crate) return_file: ReturnFile,
}

/// The classes of entries that this formula writes; both have the same records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum EntryClass {
    /// Accounts of people.
    #[serde(rename = "PPD")]
    Ppd,
    /// Accounts of companies.
    #[serde(rename = "CCD")]
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
}

/// How the file is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReturnFile {
    /// As a token.
    #[default]
    Token,
    /// As text.
    Raw,
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
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(given: &Configuration, faults: &mut Faults) -> Option<Self> {
        let mut name = |text: &str, member: &str| {
            let member = format!("configuration.{member}");
            faults.expect(plain(text), &member, "must have letters or digits")
        };
        let destination_name =
            name(&given.immediate_destination_name, "immediate_destination_name");
        let origin_name = name(&given.immediate_origin_name, "immediate_origin_name");
        let company_name = name(&given.company_name, "company_name");
        let description = name(&given.company_entry_description, "company_entry_description");

        let mut identification = |text: &str, member: &str| {
            let right = plain(text).filter(|plain| plain.chars().count() <= 10);
            let member = format!("configuration.{member}");
            faults.expect(right, &member, "must have 1 to 10 characters")
        };
        let origin = identification(&given.immediate_origin, "immediate_origin");
        let company = identification(&given.company_identification, "company_identification");

        let destination = Some(given.immediate_destination.trim())
            .filter(|number| is_routing_number(number))
            .map(str::to_owned);
        let destination = faults.expect(
            destination,
            "configuration.immediate_destination",
            "must be a routing number, nine digits with a right checksum",
        );
        let odfi = Some(&given.originating_dfi_identification)
            .filter(|number| is_digits(number, 8..=8))
            .cloned();
        let odfi = faults.expect(
            odfi,
            "configuration.originating_dfi_identification",
            "must have eight digits",
        );

        Some(Self {
            immediate_destination: destination?,
            immediate_destination_name: destination_name?,
            immediate_origin: origin?,
            immediate_origin_name: origin_name?,
            company_name: company_name?,
            company_identification: company?,
            company_entry_description: description?,
            originating_dfi_identification: odfi?,
            entry_class: given.standard_entry_class_code,
        })
    }
}
