//! Changing a stopped server's store below the software.

use std::path::Path;

/// The kind of tokens.
pub const TOKEN: u8 = 4;
/// The kind of log entries.
pub const LOG: u8 = 9;

/// The rows of a store.
pub fn rows(store: &Path) -> sled::Db {
    let config = sled::Config::new().path(store).segment_size(16 << 20).flush_every_ms(None);
    for _ in 0..600 {
        if let Ok(rows) = config.open() {
            return rows;
        }
        // Threads of a server in this process may hold the file a moment longer.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    config.open().unwrap()
}

/// The keys of the records of a kind whose ids end so; of log entries, those of the rows that begin with one.
pub fn keys(rows: &sled::Db, kind: u8, id: &str) -> Vec<sled::IVec> {
    let of_kind = |prefix| rows.scan_prefix([prefix, kind]).keys().map(Result::unwrap);
    let of_kind = [b'r', b'e'].into_iter().flat_map(of_kind);
    of_kind.filter(|key| key.ends_with(id.as_bytes())).collect()
}

/// Changes the last byte of a record.
pub fn change(store: &Path, kind: u8, id: &str) {
    let rows = rows(store);
    let key = keys(&rows, kind, id).pop().unwrap();
    let mut value = rows.get(&key).unwrap().unwrap().to_vec();
    *value.last_mut().unwrap() ^= 1;
    rows.insert(key, value).unwrap();
    rows.flush().unwrap();
}
