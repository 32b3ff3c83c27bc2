//! What a reader tells about itself. The command line's progress bars read the snapshot gauges by these names.

use lakeward_core::{Counter, Gauge, MetricGroup, TableId};

pub const SNAPSHOT_ROWS_DONE: &str = "snapshot_rows_done";
pub const SNAPSHOT_ROWS_TOTAL: &str = "snapshot_rows_total";
pub const SNAPSHOT_TABLES_DONE: &str = "snapshot_tables_done";
pub const SNAPSHOT_TABLES_TOTAL: &str = "snapshot_tables_total";
pub const SOURCE_LAG_MS: &str = "source_lag_ms";
pub const SOURCE_CONNECTED: &str = "source_connected";

#[derive(Clone)]
pub struct SourceMetrics {
    group: MetricGroup,
    /// 1 while the log stream is up.
    pub connected: Gauge,
    /// Age of the newest transaction that was read; 0 when there is nothing left to read; grows while disconnected.
    pub lag_ms: Gauge,
    pub rows_read: Counter,
    pub events_read: Counter,
    pub bytes_read: Counter,
    pub reconnects: Counter,
    /// Transactions that went on in their middle after a lost connection.
    pub resumed: Counter,
    pub log_file_number: Gauge,
    pub log_position: Gauge,
    pub snapshot_tables_done: Gauge,
    pub snapshot_tables_total: Gauge,
    /// Captured tables whose rows a foreign key changes without a word in the log.
    pub cascade_tables: Gauge,
}

impl SourceMetrics {
    pub fn new(group: &MetricGroup) -> Self {
        Self {
            connected: group.gauge(SOURCE_CONNECTED),
            lag_ms: group.gauge(SOURCE_LAG_MS),
            rows_read: group.counter("source_rows_total"),
            events_read: group.counter("source_events_total"),
            bytes_read: group.counter("source_log_bytes_total"),
            reconnects: group.counter("source_reconnects_total"),
            resumed: group.counter("source_transactions_resumed_total"),
            log_file_number: group.gauge("source_log_file_number"),
            log_position: group.gauge("source_log_position"),
            snapshot_tables_done: group.gauge(SNAPSHOT_TABLES_DONE),
            snapshot_tables_total: group.gauge(SNAPSHOT_TABLES_TOTAL),
            cascade_tables: group.gauge("source_cascade_tables"),
            group: group.clone(),
        }
    }

    pub fn table(&self, table: &TableId) -> TableMetrics {
        let group = self.group.with("table", table);
        TableMetrics {
            rows_done: group.gauge(SNAPSHOT_ROWS_DONE),
            rows_total: group.gauge(SNAPSHOT_ROWS_TOTAL),
            group,
        }
    }
}

/// A table's snapshot. The total is the server's estimate, and the true number in the end.
#[derive(Clone)]
pub struct TableMetrics {
    group: MetricGroup,
    pub rows_done: Gauge,
    pub rows_total: Gauge,
}

impl TableMetrics {
    /// The table is no longer copied.
    pub fn remove(&self) {
        self.group.remove();
    }
}
