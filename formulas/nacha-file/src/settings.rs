//! Who sends the file: the reactor's configuration, checked.

use tokamak_sdk::{Faults, Value};

use crate::field::{identification, is_digits, is_routing_number, plain};
use crate::member::Members;

/// Where files are kept unless set: with bank accounts, of which they are full.
const CONTAINER: &str = "/bank/high/";

/// Most characters of a container, as the vault has it.
const CONTAINER_CHARS_MAX: usize = 400;
/// Most segments of one in which a token is put.
const CONTAINER_SEGMENTS_MAX: usize = 16;
/// Most characters of what identifies the sender, and of what the entries are.
const SHORT_CHARS_MAX: usize = 10;

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
    pub(crate) container: String,
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(configuration: &Value, faults: &mut Faults) -> Option<Self> {
        let mut given = Members::of(configuration, "configuration".to_owned(), faults)?;
        let mut name = |member| given.text(member, plain, "must have letters or digits");
        let destination_name = name("immediate_destination_name");
        let origin_name = name("immediate_origin_name");
        let company_name = name("company_name");

        let description = given.text(
            "company_entry_description",
            short_plain,
            "must have 1 to 10 characters, letters or digits among them",
        );
        let mut id = |member| {
            let read = |id: &str| identification(id, 1..=SHORT_CHARS_MAX);
            given.text(member, read, "must have 1 to 10 characters, all of them printable ASCII")
        };
        let origin = id("immediate_origin");
        let company = id("company_identification");

        let destination = given.text(
            "immediate_destination",
            |number| Some(number.trim()).filter(|it| is_routing_number(it)).map(str::to_owned),
            "must be a routing number: nine digits, of a district that is given out, with a right checksum",
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
        let container = given.text_or(
            "container",
            CONTAINER.to_owned(),
            |path| is_container(path).then(|| path.to_owned()),
            "must be a container, such as `/bank/high/`, of at most 16 segments and 400 characters",
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
            entry_class: entry_class?,
            return_file: return_file?,
            container: container?,
        })
    }
}

/// Whether files can be kept there: segments of letters, digits, `-` and `_` between slashes. The vault would refuse others
/// when the file is made already.
fn is_container(path: &str) -> bool {
    let right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let inner = path.strip_prefix('/').and_then(|path| path.strip_suffix('/'));
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(right);
    let are_segments = |inner: &str| {
        inner.split('/').all(is_segment) && inner.split('/').count() <= CONTAINER_SEGMENTS_MAX
    };
    path.len() <= CONTAINER_CHARS_MAX && (path == "/" || inner.is_some_and(are_segments))
}

/// What recipients read, as the format takes it. It is not cut: half a word says another thing.
fn short_plain(text: &str) -> Option<String> {
    plain(text).filter(|plain| plain.chars().count() <= SHORT_CHARS_MAX)
}
