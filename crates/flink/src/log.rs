//! Log lines on their way to Flink's log, and what a panic said last.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, Once};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Lines that wait for a call of Java. Older ones give way.
const KEPT_LINES: usize = 2_000;
/// As RUST_LOG; which lines are handed on.
const FILTER_VARIABLE: &str = "LAKEWARD_LOG";

type Line = (u8, String, String);

static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn lines() -> MutexGuard<'static, VecDeque<Line>> {
    LINES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Once in a process, however often it is called.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let filter = std::env::var(FILTER_VARIABLE).unwrap_or_default();
        let filter = EnvFilter::builder().parse(if filter.is_empty() { "info" } else { &filter });
        let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
        // Someone else's subscriber stays in place.
        let _ = tracing_subscriber::registry().with(ToJava.with_filter(filter)).try_init();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let trace = std::backtrace::Backtrace::force_capture();
            LAST_PANIC.with(|last| *last.borrow_mut() = Some(place));
            lines().push_back((1, "lakeward".to_string(), format!("{panic}\n{trace}")));
            before(panic);
        }));
    });
}

/// Where the last panic of this thread was.
pub(crate) fn last_panic() -> Option<String> {
    LAST_PANIC.with(|last| last.borrow_mut().take())
}

pub(crate) fn drain() -> Vec<Line> {
    let mut lines = lines();
    if lines.is_empty() { Vec::new() } else { lines.drain(..).collect() }
}

struct ToJava;

impl<S: Subscriber> Layer<S> for ToJava {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => 1,
            Level::WARN => 2,
            Level::INFO => 3,
            Level::DEBUG | Level::TRACE => 4,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let mut lines = lines();
        if lines.len() >= KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back((level, event.metadata().target().replace("::", "."), text.finish()));
    }
}

/// The message, and its fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(self) -> String {
        match self.fields.is_empty() {
            true => self.message,
            false => format!("{} ({})", self.message, self.fields.trim_end_matches(", ")),
        }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "{name} {value:?}, "),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
