//! Groups of events: begun, held, ended.

use bytes::Bytes;
use lakeward_core::{Error, Result};
use tracing::warn;

use super::{LogCore, XA_HELD_BYTES, is_row_event};
use crate::binlog::{DecoderState, EventHeader, EventType, parse_event};
use crate::offset::FilePosition;
use crate::transaction::{Group, GroupEnd, GroupRows, HELD_BYTES, Prepared};

impl LogCore {
    pub(super) fn begin(&mut self, start: FilePosition, commit_ms: i64) -> Result<()> {
        // A statement's group has no end of its own on some servers.
        if self.group.is_some() {
            self.end(GroupEnd::Commit)?;
        }
        let position = self.boundary.position_of(&self.at);
        let mut group = Group::new(start, position, commit_ms);
        if let Some((start, consumed)) = self.resume_inside.take() {
            if start != group.start {
                return Err(Error::transient(
                    "after a lost connection the log does not go on with the transaction that was being read; restarting \
                     from the last checkpoint",
                ));
            }
            self.metrics.resumed.add(1);
            group.rows = GroupRows::Emitted { skip_until: Some(consumed) };
        }
        self.group = Some(group);
        Ok(())
    }

    pub(super) fn with_group(&mut self, change: impl FnOnce(&mut Group)) -> Result<()> {
        match &mut self.group {
            Some(group) => {
                change(group);
                Ok(())
            }
            None => Err(Error::bug("an event of a transaction stands outside of one")),
        }
    }

    /// Keeps an event of the group for its end, or emits it where the group is too large for that.
    pub(super) fn hold(&mut self, raw: &Bytes) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let limit = if group.xa.is_some() { XA_HELD_BYTES } else { HELD_BYTES };
        match &mut group.rows {
            GroupRows::Held { events, bytes } => {
                *bytes += raw.len();
                events.push(raw.clone());
                if *bytes <= limit {
                    return Ok(());
                }
                let held = std::mem::take(events);
                if group.xa.is_some() {
                    group.rows = GroupRows::Dropped;
                    return Ok(());
                }
                group.rows = GroupRows::Emitted { skip_until: None };
                self.apply_all(&held)
            }
            GroupRows::Emitted { .. } => self.apply(raw),
            GroupRows::Dropped => Ok(()),
        }
    }

    pub(super) fn end(&mut self, end: GroupEnd) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        match end {
            GroupEnd::Commit => {
                if let GroupRows::Held { events, .. } = &mut group.rows {
                    let held = std::mem::take(events);
                    self.apply_all(&held)?;
                }
            }
            GroupEnd::Rollback if group.has_emitted() => {
                return Err(Error::data_invalid(
                    "a transaction of more than 1 MB was rolled back after its rows had been logged; start over with a new \
                     snapshot (--resnapshot)",
                ));
            }
            GroupEnd::Rollback => {}
            GroupEnd::XaPrepare(xid) => {
                let events = match &mut group.rows {
                    GroupRows::Held { events, .. } => Some(std::mem::take(events)),
                    _ => None,
                };
                let from = group.start.clone();
                let (server, to) = (self.boundary.server.clone(), self.at.clone());
                self.prepared.retain(|p| p.xid != xid);
                self.prepared.push(Prepared { xid, server, from, to, events });
            }
            GroupEnd::XaCommit(xid) => {
                if let Some(i) = self.prepared.iter().position(|p| p.xid == xid) {
                    let mut prepared = self.prepared.swap_remove(i);
                    match prepared.events.take() {
                        Some(events) => {
                            // Its table numbers are of another time.
                            self.maps.clear();
                            self.apply_all(&events)?;
                            self.maps.clear();
                        }
                        None => {
                            self.maps.clear();
                            // The reader reads them, then calls `reread_done`.
                            if let Some(mut group) = self.group.take() {
                                group.rows = GroupRows::Emitted { skip_until: None };
                                self.reread = Some((prepared, group));
                            }
                            return Ok(());
                        }
                    }
                } else {
                    warn!(position = %self.at, "an XA transaction ends that was prepared before the pipeline began to read");
                }
            }
            GroupEnd::XaRollback(xid) => self.prepared.retain(|p| p.xid != xid),
        }
        self.finish_group();
        Ok(())
    }

    fn finish_group(&mut self) {
        if let Some(group) = self.group.take() {
            if let (Some(gtids), Some(gtid)) = (&mut self.boundary.gtids, &group.gtid) {
                gtids.add(gtid);
            }
            self.commit_ms = self.commit_ms.max(group.commit_ms);
        }
        self.boundary.at = self.at.clone();
        self.last_group = Some(self.at.clone());
    }

    /// The rows of the XA transaction that `reread` asked for have all been applied.
    pub fn reread_done(&mut self) {
        if let Some((_, group)) = self.reread.take() {
            self.group = Some(group);
            self.finish_group();
            self.maps.clear();
        }
    }

    /// Applies an event of the transaction that `reread` asked for; other events of that stream are passed over.
    pub fn reread_event(&mut self, raw: &Bytes, decoder: &mut DecoderState) -> Result<()> {
        let header = EventHeader::parse(raw)?;
        if header.event_type == EventType::FORMAT_DESCRIPTION {
            return parse_event(raw, decoder).map(|_| ());
        }
        if !is_row_event(header.event_type) {
            return Ok(());
        }
        let Some((prepared, group)) = self.reread.take() else { return Ok(()) };
        self.group = Some(group);
        let own = self.decoder.replace(decoder.clone());
        let result = self.apply(raw);
        self.decoder = own;
        if let Some(group) = self.group.take() {
            self.reread = Some((prepared, group));
        }
        result
    }
}
