//! A writer whose table is committed and changed by parts of the job that it shares nothing with.

use std::sync::Arc;

use async_trait::async_trait;
use lakeward_core::{Committable, DataChange, Error, Result, SinkWriter};

use crate::session::Session;
use crate::table_state::TableHandle;

/// Sees to it that the writer learns of schema changes from the catalog.
///
/// Every DDL of such a table waits until the rows before it are committed (see the metadata applier), and no row's place
/// changes while an attempt lasts. So a writer's locator is right until a DDL, and after a DDL the catalog knows all.
pub(crate) struct JoinedWriter {
    writer: Box<dyn SinkWriter>,
    session: Arc<Session>,
    handle: Arc<TableHandle>,
    /// It has taken rows whose committables are not handed over.
    holds_rows: bool,
}

impl JoinedWriter {
    pub(crate) fn new(
        writer: Box<dyn SinkWriter>,
        session: Arc<Session>,
        handle: Arc<TableHandle>,
    ) -> Self {
        Self { writer, session, handle, holds_rows: false }
    }
}

#[async_trait]
impl SinkWriter for JoinedWriter {
    async fn write(&mut self, change: DataChange) -> Result<()> {
        self.holds_rows |= !change.kinds.is_empty();
        self.writer.write(change).await
    }

    fn buffered_bytes(&self) -> usize {
        self.writer.buffered_bytes()
    }

    async fn flush(&mut self) -> Result<()> {
        self.writer.flush().await
    }

    async fn complete_files(&mut self) -> Result<Vec<Committable>> {
        let committables = self.writer.complete_files().await?;
        self.holds_rows = false;
        Ok(committables)
    }

    async fn table_changed(&mut self) -> Result<()> {
        if self.holds_rows {
            return Err(Error::bug(
                "a table was changed while rows before the change were not committed",
            )
            .with("table", self.handle.table()));
        }
        self.session.refresh(&self.handle).await?;
        self.handle.invalidate_locators(&self.handle.lock().await);
        self.writer.table_changed().await
    }
}
