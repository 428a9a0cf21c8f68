//! Commands on the vault of a stopped server.

use std::path::Path;

use super::{Failure, disk, logging, open, root_key, serve};
use crate::config::Options;
use crate::runtime::close_to_others;
use crate::vault::Vault;

/// Does something with the vault of a stopped server; refuses a folder in which there is none.
pub fn with_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_one(options, open::refuse_without_store, work)
}

/// The same, and makes the vault if there is none.
pub fn with_new_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_one(options, |_| Ok(()), work)
}

fn with_one(
    options: Options,
    check: impl FnOnce(&Path) -> Result<(), Failure>,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let settings = options.settle()?;
    logging::start(&settings.log, settings.log_format)?;
    close_to_others()?;
    // Before the key: that of another folder would seem to be the wrong one.
    check(&settings.data_dir)?;
    let root_key = root_key::read(&settings.root_key_source()?)?;
    let done = serve::block_on(async {
        let vault = open::open(&settings, root_key).await?;
        let done = work(&vault).await;
        vault.close();
        done
    });
    done.map_err(|error| disk::about(error, &settings.data_dir))
}
