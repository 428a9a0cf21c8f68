//! Finding entities: by id, or page by page. What has ended is not found.

use std::ops::Bound;

use super::apart::{FEW_OF_A_PAGE, LITTLE_BYTES, LITTLE_BYTES_OF_A_PAGE, anyway, in_turn};
use super::page::{Page, PageRequest};
use super::record::{Entity, Stored, from_record, read_record};
use super::{Error, Vault, index, shares};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Filter, Kind, Record, Slice, Start, StoreFuture};

impl Vault {
    /// Entities by id, `None` for each that is not there or has ended.
    pub(super) async fn find<E: Entity>(
        &self,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<Option<Stored<E>>>, Error> {
        self.find_at(tenant, ids, self.now()).await
    }

    /// The same, of those that had not ended by this time and are still there.
    pub(super) async fn find_at<E: Entity>(
        &self,
        tenant: TenantId,
        ids: &[&str],
        at: Timestamp,
    ) -> Result<Vec<Option<Stored<E>>>, Error> {
        let room = |_: &str, text: &[u8]| Ok(shares::opened(E::weight(text))?);
        self.find_within(tenant, ids, at, room).await
    }

    /// The same, if there is room for it: asked with the id and the text of each before it is read.
    pub(super) async fn find_within<E: Entity>(
        &self,
        tenant: TenantId,
        ids: &[&str],
        at: Timestamp,
        mut room: impl FnMut(&str, &[u8]) -> Result<(), Error>,
    ) -> Result<Vec<Option<Stored<E>>>, Error> {
        let records = self.read_records(E::KIND, tenant, ids).await?;
        let keys = self.keys(tenant).await?;
        let open = |record: Option<Record>| {
            let Some(record) = record else { return Ok(None) };
            let mut stored = read_record::<E>(&record, &keys, |text| room(&record.id, text))?;
            stored.entity.settle(at.0);
            Ok(Some(stored).filter(|stored| !ended(&stored.entity, at.0)))
        };
        records.into_iter().map(open).collect()
    }

    /// The entity of this id.
    pub(super) async fn get<E: Entity>(
        &self,
        tenant: TenantId,
        id: &str,
    ) -> Result<Stored<E>, Error> {
        let found = self.find(tenant, &[id]).await?.pop().flatten();
        found.ok_or(Error::NotFound(E::NOUN))
    }

    /// The version of what was just stored. It is read, and not reckoned from the one before: whoever seals a record anew
    /// counts it on too.
    pub(super) async fn version_of<E: Entity>(
        &self,
        tenant: TenantId,
        entity: &E,
    ) -> Result<u64, Error> {
        let id = entity.id();
        let found = self.0.store.find(E::KIND, tenant, &[&id]).await?.pop().flatten();
        found.map(|record| record.version).ok_or(Error::NotFound(E::NOUN))
    }

    /// Entities that match the filter, newest first.
    pub(super) async fn page<E: Entity>(
        &self,
        tenant: TenantId,
        filter: Filter,
        request: &PageRequest,
    ) -> Result<Page<E>, Error> {
        let filter = Filter::And(vec![filter, self.not_ended()]);
        let slice = self.read_page(E::KIND, tenant, &filter, request.place()).await?;
        let keys = self.keys(tenant).await?;
        let now_ms = self.now().0;
        request.page(&slice, |record| {
            let mut entity = from_record::<E>(record, &keys)?.entity;
            entity.settle(now_ms);
            Ok(entity)
        })
    }

    /// Every entity of a kind that matches, for kinds of which a tenant has few that are small.
    pub(super) async fn all<E: Entity>(
        &self,
        tenant: TenantId,
        filter: &Filter,
    ) -> Result<Vec<E>, Error> {
        let mut all = Vec::new();
        self.each(tenant, filter, |one| all.push(one)).await?;
        Ok(all)
    }

    /// Goes to every entity of a kind that matches, few at a time: each may be large.
    pub(super) async fn each<E: Entity>(
        &self,
        tenant: TenantId,
        filter: &Filter,
        mut see: impl FnMut(E),
    ) -> Result<(), Error> {
        let mut request = PageRequest::first().of_few();
        loop {
            let page = self.page::<E>(tenant, filter.clone(), &request).await?;
            page.data.into_iter().for_each(&mut see);
            match page.next.and_then(|cursor| PageRequest::following(&cursor)) {
                Some(next) => request = next.of_few(),
                None => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Which of these ids are taken, also by what has ended. However much they hold, nothing of it is read.
    pub(super) async fn are_taken<E: Entity>(
        &self,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<bool>, Error> {
        let mut taken = Vec::with_capacity(ids.len());
        for id in ids {
            let itself = Filter::Ids(vec![(*id).to_owned()]);
            taken.push(self.any::<E>(tenant, &itself).await?);
        }
        Ok(taken)
    }

    /// Records of these ids. Much is read apart, if there is room for it then.
    pub(super) async fn read_records(
        &self,
        kind: Kind,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<Option<Record>>, Error> {
        let store = &self.0.store;
        match store.find_at_most(kind, tenant, ids, LITTLE_BYTES).await? {
            Ok(records) => {
                let bytes = records.iter().flatten().map(|record| record.body.len());
                if bytes.sum::<usize>() > LITTLE_BYTES {
                    self.go_apart(tenant).await?;
                } else if records.len() > 1 {
                    self.go_on_in_turn(tenant).await?;
                }
                Ok(records)
            }
            Err(bytes) => {
                let read = store.find(kind, tenant, ids);
                self.with_room_apart(tenant, bytes, read).await
            }
        }
    }

    /// The same, of a page.
    pub(super) async fn read_page(
        &self,
        kind: Kind,
        tenant: TenantId,
        filter: &Filter,
        (start, size): (Start, usize),
    ) -> Result<Slice, Error> {
        if filter.is_much() {
            self.go_apart(tenant).await?;
        }
        let (store, most) = (&self.0.store, LITTLE_BYTES_OF_A_PAGE);
        match store.page_at_most(kind, tenant, filter, (start.clone(), size), most).await? {
            Ok(slice) => {
                let bytes = slice.records.iter().map(|record| record.body.len());
                let is_long = slice.records.len() > FEW_OF_A_PAGE;
                if is_long || bytes.sum::<usize>() > LITTLE_BYTES_OF_A_PAGE {
                    self.go_apart(tenant).await?;
                } else if slice.records.len() > 1 {
                    self.go_on_in_turn(tenant).await?;
                }
                Ok(slice)
            }
            Err(bytes) => {
                let read = store.page(kind, tenant, filter, start, size);
                self.with_room_apart(tenant, bytes, read).await
            }
        }
    }

    /// Reads so many bytes apart, if there is room for them. Once they are read, what is opened of them counts instead.
    async fn with_room_apart<T>(
        &self,
        tenant: TenantId,
        bytes: usize,
        read: StoreFuture<'_, T>,
    ) -> Result<T, Error> {
        self.go_apart(tenant).await?;
        let before = shares::opened_so_far();
        shares::opened(bytes)?;
        let read = read.await;
        shares::let_go_of_all_but(before);
        Ok(read?)
    }

    /// Goes on apart, for who asked for that and still is who that was.
    pub(super) async fn go_apart(&self, tenant: TenantId) -> Result<(), Error> {
        if anyway(tenant).await {
            Box::pin(self.expect_asker_unchanged()).await?;
        }
        Ok(())
    }

    /// The same, in turn.
    async fn go_on_in_turn(&self, tenant: TenantId) -> Result<(), Error> {
        if in_turn(tenant).await {
            Box::pin(self.expect_asker_unchanged()).await?;
        }
        Ok(())
    }

    /// What has not ended by itself.
    pub(super) fn not_ended(&self) -> Filter {
        let ended = Bound::Included(self.now().0);
        Filter::Not(Box::new(Filter::Range {
            field: index::number::EXPIRES_AT,
            from: Bound::Unbounded,
            to: ended,
        }))
    }

    /// Whether anything matches the filter.
    pub(super) async fn any<E: Entity>(
        &self,
        tenant: TenantId,
        filter: &Filter,
    ) -> Result<bool, Error> {
        let start = Start::Offset(0);
        let slice = self.0.store.page(E::KIND, tenant, filter, start, 0).await?;
        Ok(slice.total > 0)
    }
}

/// Whether an entity has ended by this time.
pub fn ended<E: Entity>(entity: &E, now_ms: u64) -> bool {
    entity.expires_ms().is_some_and(|end_ms| end_ms <= now_ms)
}

#[cfg(test)]
mod tests;
