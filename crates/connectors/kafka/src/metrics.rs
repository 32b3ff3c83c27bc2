//! What a reader tells about itself.

use lakeward_core::{Counter, Gauge, MetricGroup};

#[derive(Clone)]
pub struct SourceMetrics {
    /// 1 while a broker answers.
    pub connected: Gauge,
    /// Age of the newest change that was read; 0 when there is nothing left to read.
    pub lag_ms: Gauge,
    /// Records between where the reader is and where the partitions end, as far as it was asked last.
    pub lag_records: Gauge,
    pub partitions: Gauge,
    pub rows_read: Counter,
    pub records_read: Counter,
    pub bytes_read: Counter,
    /// Records that say nothing about rows: tombstones, markers, heartbeats.
    pub markers: Counter,
    /// Records that could not be decoded and were left out or put aside.
    pub bad_records: Counter,
}

impl SourceMetrics {
    pub fn new(group: &MetricGroup) -> Self {
        Self {
            connected: group.gauge("source_connected"),
            lag_ms: group.gauge("source_lag_ms"),
            lag_records: group.gauge("source_lag_records"),
            partitions: group.gauge("source_partitions"),
            rows_read: group.counter("source_rows_total"),
            records_read: group.counter("source_events_total"),
            bytes_read: group.counter("source_log_bytes_total"),
            markers: group.counter("source_markers_total"),
            bad_records: group.counter("source_bad_records_total"),
        }
    }
}
