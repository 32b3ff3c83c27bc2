//! What happens to the log stream: lost, found again, on another server; and the way back to an XA transaction's rows.

use lakeward_core::{Error, Result};
use tracing::{info, warn};

use super::{Detour, MysqlReader, Stream};
use crate::binlog::{DecoderState, EventHeader};
use crate::client::{Backoff, ServerFacts};
use crate::dump::{CLASH, DumpStream, EventBatch, Replica, StartAt};
use crate::establish::{Established, StreamRequest, establish};
use crate::log::end_of;
use crate::offset::FilePosition;
use crate::shapes::Shapes;
use crate::tables::Phase;

/// A stream that lasted this long, or brought a transaction, was none that ends at once.
const HEALTHY_MS: i64 = 5_000;

impl MysqlReader {
    pub(super) fn on_lost(&mut self, e: Error) -> Result<()> {
        if !e.kind().is_retryable() {
            let asked = match self.core.boundary.at.file.is_empty() {
                true => &self.resumed,
                false => &self.core.boundary,
            };
            return Err(e.with("position", asked));
        }
        if let (Stream::On { replica, .. }, true) =
            (&self.stream, e.context().iter().any(|(key, _)| *key == CLASH))
        {
            self.ids.give_up(replica.server_id)?;
        }
        // A server that accepts the connection and ends it at once is not asked again and again without a pause.
        let now_ms = self.clock.now_ms();
        let has_read_on = self.core.boundary.at != self.resumed.at;
        if has_read_on || now_ms - self.connected_ms >= HEALTHY_MS {
            self.losses = Backoff::default();
        }
        let pause = match self.losses.attempts {
            0 => std::time::Duration::ZERO,
            _ => self.losses.next(),
        };
        self.losses.attempts = self.losses.attempts.max(1);
        warn!(position = %self.core.boundary, "{e}; connecting again");
        self.core.metrics.connected.set(0);
        self.core.metrics.reconnects.add(1);
        self.core.disconnected();
        self.batch = None;
        self.next_event = 0;
        self.resumed = self.core.boundary.clone();
        let request = StreamRequest {
            client: self.client.clone(),
            resume: self.core.boundary.clone(),
            ids: self.ids.clone(),
            ahead_bytes: self.ahead_bytes,
            mid_transaction: self.core.resume_inside.is_some(),
        };
        self.stream = Stream::Connecting(tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            establish(request).await
        }));
        Ok(())
    }

    pub(super) fn on_connected(&mut self, established: Established) -> Result<()> {
        let Established { dump, facts, replica, start, moved } = established;
        if moved {
            self.on_moved(&facts)?;
        }
        match start {
            // What the server sends first stands behind this.
            StartAt::Position(at) => self.core.at = at,
            StartAt::After(_) => self.core.at = self.core.boundary.at.clone(),
        }
        self.facts = facts;
        self.stream = Stream::On { dump, replica };
        self.core.metrics.connected.set(1);
        self.core.changed = true;
        self.heard_ms = self.clock.now_ms();
        self.connected_ms = self.heard_ms;
        Ok(())
    }

    /// The stored file means nothing here, since another server has taken over or its logs were reset: files count anew.
    fn on_moved(&mut self, facts: &ServerFacts) -> Result<()> {
        info!(server = %facts.identity, "the stored log file is not one of this server's; going on by GTID");
        let core = &mut self.core;
        let before = core.boundary.position_of(&core.boundary.at);
        core.boundary.server = facts.identity.clone();
        core.boundary.at = FilePosition::new("", 0);
        core.boundary.era += 1;
        core.last_group = None;
        self.pool = None;
        self.backfill.jobs_out = 0;
        self.backfill.whole_out = 0;
        let mut doubtful = Vec::new();
        for slot in &mut core.tables.slots {
            slot.void_chunks();
            let ahead = slot.rows_from.is_some_and(|from| from > before);
            let unfinished = !slot.is_active() || matches!(slot.run, crate::tables::Run::Whole(_));
            if ahead || unfinished {
                doubtful.push(slot.id.clone());
            }
        }
        for table in doubtful {
            core.ask(&table, "the server changed while the table was read", true);
        }
        Ok(())
    }

    pub(super) fn on_shapes(&mut self, shapes: Shapes) {
        for (database, charset) in &shapes.database_charsets {
            self.core.history.set_database_charset(database, charset);
        }
        for (table, found) in shapes.tables {
            if let Some(slot) = self.core.tables.get_mut(&table)
                && matches!(slot.phase, Phase::Asked)
            {
                slot.phase = Phase::Waiting {
                    from: shapes.from.at.clone(),
                    until: shapes.until.at.clone(),
                    found,
                };
            }
        }
        self.core.changed = true;
    }

    pub(super) fn begin_detour(&mut self) -> Result<()> {
        let Some((prepared, _)) = &self.core.reread else { return Ok(()) };
        let Stream::On { replica, .. } = &self.stream else { return Ok(()) };
        if prepared.server != self.core.boundary.server {
            return Err(Error::data_invalid(
                "an XA transaction was prepared on another server than the one that ends it, so its rows cannot be read; \
                 start over with a new snapshot (--resnapshot)",
            )
            .with("position", &prepared.from));
        }
        let (client, facts) = (self.client.clone(), self.facts.clone());
        let start = StartAt::Position(prepared.from.clone());
        // Two dumps of one id would throw each other out.
        let replica = Replica { server_id: replica.server_id ^ 0x4000_0000, ..replica.clone() };
        let ahead_bytes = self.ahead_bytes;
        let opening = tokio::spawn(async move {
            DumpStream::open(&client, &facts, &start, &replica, ahead_bytes).await
        });
        self.detour = Some(Detour {
            opening: Some(opening),
            dump: None,
            decoder: DecoderState::default(),
            at: prepared.from.clone(),
            until: prepared.to.clone(),
        });
        Ok(())
    }

    pub(super) fn on_detour_events(&mut self, batch: EventBatch) -> Result<()> {
        for raw in &batch.events {
            let Some(detour) = &mut self.detour else { return Ok(()) };
            let header = EventHeader::parse(raw)?;
            if !header.is_artificial() && header.next_position != 0 {
                detour.at.pos = end_of(&header, &detour.at);
            }
            if detour.at > detour.until {
                break;
            }
            self.core.reread_event(raw, &mut detour.decoder)?;
            if detour.at >= detour.until {
                break;
            }
        }
        if self.detour.as_ref().is_some_and(|d| d.at >= d.until) {
            self.detour = None;
            self.core.reread_done();
        }
        Ok(())
    }
}
