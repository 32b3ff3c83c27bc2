//! What a `long` of the Java side stands for: one instance of an operator, called by one thread at a time.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use lakeward_core::{CheckpointId, Error, ErrorKind, MetricGroup, Result};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, runtime};
use crate::marks::Marks;
use crate::operator::OperatorInstance;
use crate::reader::SourceInstance;
use crate::spec::Spec;
use crate::wire::{Control, Outputs};
use crate::{log, metrics, planted};

/// What a call gives back to Java.
pub type Returned = Vec<Vec<u8>>;

struct Handle {
    instance: Mutex<Instance>,
    cancel: CancellationToken,
    /// A call panicked: what it left behind is not to be used.
    poisoned: AtomicBool,
    metrics: MetricGroup,
    /// What it is called in a wish for a panic, before a call and after its work.
    places: [String; 2],
}

struct Instance {
    kind: Kind,
    outputs: Outputs,
    marks: Arc<Marks>,
}

enum Kind {
    Source(Box<SourceInstance>),
    Operator(Box<OperatorInstance>),
    Closed,
}

type Handles = HashMap<i64, Arc<Handle>>;

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);
static LAST: AtomicI64 = AtomicI64::new(0);

fn handles() -> MutexGuard<'static, Option<Handles>> {
    HANDLES.lock().unwrap_or_else(|e| e.into_inner())
}

fn of(handle: i64) -> Result<Arc<Handle>> {
    let found = handles().as_ref().and_then(|handles| handles.get(&handle).cloned());
    found.ok_or_else(closed)
}

fn closed() -> Error {
    Error::bug("the operator is closed")
}

/// Opens an instance. `restored` are the states that Flink gives back.
pub fn open(spec: &[u8], restored: Vec<Vec<u8>>) -> Result<i64> {
    log::start();
    let spec = Spec::parse(spec)?;
    let restored: Vec<Vec<u8>> = restored.into_iter().filter(|state| !state.is_empty()).collect();
    let runtime = runtime()?;
    let opened = guarded(|| {
        runtime.block_on(async {
            let context = Context::of(&spec).await?;
            Ok(match context.stage()? {
                None => Kind::Source(Box::new(SourceInstance::new(context, restored)?)),
                Some(at) => Kind::Operator(Box::new(OperatorInstance::new(context, at, restored)?)),
            })
        })
    });
    let kind = opened?;
    let (context, downstream) = match &kind {
        Kind::Source(source) => (source.context(), source.downstream()),
        Kind::Operator(operator) => (operator.context(), operator.downstream()),
        Kind::Closed => return Err(closed()),
    };
    let (marks, metrics) = (context.marks.clone(), context.metrics.clone());
    let places = ["before", "after"].map(|moment| format!("{}.{moment}", context.operator));
    let handle = Handle {
        instance: Mutex::new(Instance { outputs: Outputs::new(downstream), marks, kind }),
        cancel: CancellationToken::new(),
        poisoned: AtomicBool::new(false),
        metrics,
        places,
    };
    let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    handles().get_or_insert_default().insert(id, Arc::new(handle));
    Ok(id)
}

impl Handle {
    /// Runs one call to its end, or until it is cancelled.
    fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut Kind, &mut Outputs) -> Result<T>,
    ) -> Result<(T, Returned)> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::bug("the operator panicked before and is not to be used any more"));
        }
        let mut instance = match self.instance.try_lock() {
            Ok(instance) => instance,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::bug("two threads call one operator at the same time"));
            }
        };
        let Instance { kind, outputs, marks } = &mut *instance;
        let runtime = runtime()?;
        let [before, after] = &self.places;
        let result = guarded(|| {
            planted::panic_at(before);
            let result = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => Err(Error::transient("the call was cancelled")),
                    result = call(kind, outputs) => result,
                }
            });
            planted::panic_at(after);
            result
        });
        if result.as_ref().is_err_and(|e| e.message().starts_with(PANICKED)) {
            self.poisoned.store(true, Ordering::Release);
        }
        let value = result.map_err(go_back)?;
        for control in marks.controls() {
            outputs.control(control);
        }
        for (level, target, message) in log::drain() {
            outputs.control(Control::Log(level, target, message));
        }
        Ok((value, outputs.take()))
    }
}

/// Flink restores its newest checkpoint, again and again; only the user can choose an older one.
fn go_back(error: Error) -> Error {
    match error.kind() {
        ErrorKind::EpochLost => Error::config(format!(
            "{error}; start the job from a savepoint or retained checkpoint before that (--flink.from-savepoint)"
        )),
        _ => error,
    }
}

const PANICKED: &str = "a call into lakeward panicked";

/// A panic becomes an error with its text and place.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    match std::panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(panic) => Err(panicked(&*panic)),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let place = log::last_panic().unwrap_or_default();
    Error::bug(format!("{PANICKED}, which is a defect of it: {text}")).with("at", place)
}

pub fn process(handle: i64, record: Vec<u8>) -> Result<Returned> {
    let call = async |kind: &mut Kind, out: &mut Outputs| match kind {
        Kind::Source(_) => Err(Error::bug("a source takes no records")),
        Kind::Operator(operator) => operator.process(record, out).await,
        Kind::Closed => Err(closed()),
    };
    of(handle)?.call(call).map(|((), returned)| returned)
}

/// `news` are names of marks, one on each line.
pub fn poll(handle: i64, news: Option<&str>) -> Result<Returned> {
    let handle = of(handle)?;
    if let Some(news) = news {
        let instance = handle.instance.lock().unwrap_or_else(|e| e.into_inner());
        instance.marks.news(news);
    }
    let call = async |kind: &mut Kind, out: &mut Outputs| match kind {
        Kind::Source(source) => source.poll(out).await,
        Kind::Operator(operator) => operator.poll(out).await,
        Kind::Closed => Err(closed()),
    };
    handle.call(call).map(|((), returned)| returned)
}

pub fn prepare_snapshot(handle: i64, checkpoint: u64) -> Result<Returned> {
    let call = async |kind: &mut Kind, out: &mut Outputs| match kind {
        Kind::Source(_) => Ok(()),
        Kind::Operator(operator) => operator.prepare_snapshot(CheckpointId(checkpoint), out).await,
        Kind::Closed => Err(closed()),
    };
    of(handle)?.call(call).map(|((), returned)| returned)
}

/// Gives back the state; what a call returns beside it comes with the next one.
pub fn snapshot_state(handle: i64, checkpoint: u64) -> Result<Vec<u8>> {
    let handle = of(handle)?;
    let call = async |kind: &mut Kind, _: &mut Outputs| match kind {
        Kind::Source(source) => source.snapshot_state(CheckpointId(checkpoint)).await,
        Kind::Operator(operator) => operator.snapshot_state(CheckpointId(checkpoint)).await,
        Kind::Closed => Err(closed()),
    };
    let (state, returned) = handle.call(call)?;
    if !returned.is_empty() {
        let mut instance = handle.instance.lock().unwrap_or_else(|e| e.into_inner());
        instance.outputs.put_back(returned);
    }
    Ok(state)
}

pub fn checkpoint_complete(handle: i64, checkpoint: u64) -> Result<Returned> {
    let checkpoint = CheckpointId(checkpoint);
    let call = async |kind: &mut Kind, out: &mut Outputs| match kind {
        Kind::Source(source) => source.checkpoint_complete(checkpoint, out).await,
        Kind::Operator(operator) => operator.checkpoint_complete(checkpoint, out).await,
        Kind::Closed => Err(closed()),
    };
    of(handle)?.call(call).map(|((), returned)| returned)
}

pub fn finish(handle: i64) -> Result<Returned> {
    let call = async |kind: &mut Kind, out: &mut Outputs| match kind {
        Kind::Source(_) => Ok(()),
        Kind::Operator(operator) => operator.finish(out).await,
        Kind::Closed => Err(closed()),
    };
    of(handle)?.call(call).map(|((), returned)| returned)
}

pub fn metrics(handle: i64) -> Result<String> {
    Ok(metrics::lines(&of(handle)?.metrics))
}

/// Ends a call in flight, from any thread. An unknown handle is no error.
pub fn cancel(handle: i64) {
    if let Ok(handle) = of(handle) {
        handle.cancel.cancel();
    }
}

/// Gives everything back. An unknown handle is no error.
pub fn close(handle: i64) -> Result<()> {
    let removed = handles().as_mut().and_then(|handles| handles.remove(&handle));
    let Some(handle) = removed else { return Ok(()) };
    handle.cancel.cancel();
    let runtime = runtime()?;
    guarded(|| {
        let mut instance = handle.instance.lock().unwrap_or_else(|e| e.into_inner());
        let kind = std::mem::replace(&mut instance.kind, Kind::Closed);
        drop(instance);
        // What an instance holds may want the runtime when it is dropped.
        runtime.block_on(async {
            match kind {
                Kind::Source(mut source) => source.close().await,
                Kind::Operator(operator) => drop(operator),
                Kind::Closed => {}
            }
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        log::start();
        let number = 7;
        let panicked = guarded::<()>(|| panic!("number {number}")).unwrap_err();
        assert!(panicked.message().starts_with(PANICKED), "{panicked}");
        let said = panicked.to_string();
        assert!(said.contains("number 7") && said.contains("handle.rs"), "{said}");
    }

    #[test]
    fn what_the_sink_lost_is_not_tried_again_and_again() {
        let lost = go_back(Error::epoch_lost("the load is gone").with("table", "a.b"));
        assert_eq!(lost.kind(), ErrorKind::Config);
        assert!(lost.to_string().contains("the load is gone (table a.b); start the job from"));
        assert_eq!(go_back(Error::transient("later")).kind(), ErrorKind::Transient);
    }
}
