//! What the sink counts.

use lakeward_core::{Counter, Gauge, MetricGroup};

#[derive(Debug, Clone)]
pub(crate) struct SinkMetrics {
    /// Loads that were taken.
    pub(crate) loads: Counter,
    /// Bytes of their bodies, as sent.
    pub(crate) loaded_bytes: Counter,
    /// Loads that were sent again.
    pub(crate) load_retries: Counter,
    /// Loads that waited because the cluster had too many versions or transactions.
    pub(crate) throttled: Counter,
    /// Transactions that were committed.
    pub(crate) commits: Counter,
    /// Loads of lost attempts that were aborted.
    pub(crate) aborted: Counter,
    /// Milliseconds since the oldest load that waits for its commit.
    pub(crate) oldest_precommitted_ms: Gauge,
}

impl SinkMetrics {
    pub(crate) fn new(group: &MetricGroup) -> Self {
        Self {
            loads: group.counter("doris_loads_total"),
            loaded_bytes: group.counter("doris_loaded_bytes_total"),
            load_retries: group.counter("doris_load_retries_total"),
            throttled: group.counter("doris_throttled_loads_total"),
            commits: group.counter("doris_commits_total"),
            aborted: group.counter("doris_aborted_loads_total"),
            oldest_precommitted_ms: group.gauge("doris_oldest_precommitted_ms"),
        }
    }
}
