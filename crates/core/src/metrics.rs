//! Counters and gauges that a runtime exports. Reading and writing them costs an atomic operation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A metric's name and labels. Names are Prometheus names without prefix: `rows_read_total`, `lag_ms`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricKey {
    pub name: String,
    pub labels: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub enum Metric {
    Counter(Counter),
    Gauge(Gauge),
}

type Registry = Mutex<BTreeMap<MetricKey, Metric>>;

/// A place in the tree of metrics. Asking twice for the same name and labels gives the same metric, so counters survive
/// a restart of the job within one process.
#[derive(Debug, Clone, Default)]
pub struct MetricGroup {
    labels: Vec<(String, String)>,
    registry: Arc<Registry>,
}

impl MetricGroup {
    /// A group below this one, with one label more (`table`, `operator`, `index`).
    pub fn with(&self, key: &str, value: impl ToString) -> Self {
        let mut labels = self.labels.clone();
        labels.push((key.to_string(), value.to_string()));
        Self { labels, registry: self.registry.clone() }
    }

    pub fn counter(&self, name: &str) -> Counter {
        match self.entry(name, || Metric::Counter(Counter::default())) {
            Metric::Counter(c) => c,
            Metric::Gauge(_) => Counter::default(),
        }
    }

    pub fn gauge(&self, name: &str) -> Gauge {
        match self.entry(name, || Metric::Gauge(Gauge::default())) {
            Metric::Gauge(g) => g,
            Metric::Counter(_) => Gauge::default(),
        }
    }

    /// Takes the metrics of exactly this place out of the tree: what they are about is gone.
    pub fn remove(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(|e| e.into_inner());
        registry.retain(|key, _| key.labels != self.labels);
    }

    /// All metrics of the whole tree, in order.
    pub fn snapshot(&self) -> Vec<(MetricKey, Metric)> {
        let registry = self.registry.lock().unwrap_or_else(|e| e.into_inner());
        registry.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn entry(&self, name: &str, new: impl FnOnce() -> Metric) -> Metric {
        let key = MetricKey { name: name.to_string(), labels: self.labels.clone() };
        let mut registry = self.registry.lock().unwrap_or_else(|e| e.into_inner());
        registry.entry(key).or_insert_with(new).clone()
    }
}
