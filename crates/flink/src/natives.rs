//! The functions that `io.lakeward.flink.nativelib.Native` declares. Whatever goes wrong becomes an exception there.
#![allow(unsafe_code, reason = "the JVM finds native functions by their unmangled names")]

use jni::errors::ErrorPolicy;
use jni::objects::{JByteArray, JClass, JObjectArray, JString, JThrowable, JValue};
use jni::sys::jlong;
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use lakeward_core::{Error, ErrorKind, Result};

use crate::{handle, plan};

type Bytes<'a> = JByteArray<'a>;
type Outputs<'a> = JObjectArray<'a, JByteArray<'a>>;

/// An error of ours, or one of the boundary itself.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self(Error::bug("a call between Java and lakeward failed").with_source(error))
    }
}

/// Throws a `LakewardException` with the error's kind and text.
struct Throw;

impl Throw {
    fn throw(env: &mut Env<'_>, error: &Error) -> jni::errors::Result<()> {
        if env.exception_check() {
            return Ok(());
        }
        let class = env.find_class(jni_str!("io/lakeward/flink/nativelib/LakewardException"))?;
        let kind = JString::from_str(env, name_of(error.kind()))?;
        let message = JString::from_str(env, error.to_string())?;
        let exception = env.new_object(
            class,
            jni_sig!("(Ljava/lang/String;Ljava/lang/String;)V"),
            &[JValue::Object(&kind), JValue::Object(&message)],
        )?;
        let exception = env.cast_local::<JThrowable<'_>>(exception)?;
        match env.throw(exception) {
            // That is how a throw that worked is told.
            Err(jni::errors::Error::JavaException) => Ok(()),
            other => other,
        }
    }
}

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        Self::throw(env, &failure.0)?;
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        payload: Box<dyn std::any::Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let text = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Self::throw(
            env,
            &Error::bug(format!("a call between Java and lakeward panicked: {text}")),
        )?;
        Ok(T::default())
    }
}

fn name_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Transient => "Transient",
        ErrorKind::Config => "Config",
        ErrorKind::EpochLost => "EpochLost",
        ErrorKind::OffsetLost => "OffsetLost",
        ErrorKind::SchemaIncompatible => "SchemaIncompatible",
        ErrorKind::DataInvalid => "DataInvalid",
        ErrorKind::Fenced => "Fenced",
        ErrorKind::Bug => "Bug",
    }
}

fn bytes_of(env: &Env<'_>, array: &Bytes<'_>) -> std::result::Result<Vec<u8>, Failure> {
    if array.is_null() {
        return Err(Error::bug("a call from Java gave null for bytes").into());
    }
    Ok(env.convert_byte_array(array)?)
}

fn outputs<'local>(
    env: &mut Env<'local>,
    returned: Result<handle::Returned>,
) -> std::result::Result<Outputs<'local>, Failure> {
    let returned = returned?;
    let array = env.new_object_type_array::<JByteArray<'_>>(returned.len(), JByteArray::null())?;
    for (i, bytes) in returned.iter().enumerate() {
        let element = env.byte_array_from_slice(bytes)?;
        array.set_element(env, i, &element)?;
        env.delete_local_ref(element);
    }
    Ok(array)
}

fn checkpoint_of(checkpoint: jlong) -> Result<u64> {
    u64::try_from(checkpoint).map_err(|_| Error::bug("a checkpoint has a negative id"))
}

/// Defines one native function; the body gives back a `Result` with our error.
macro_rules! native {
    ($name:ident, ($env:ident $(, $arg:ident : $type:ty)*) -> $returns:ty, $body:block) => {
        #[unsafe(no_mangle)]
        pub extern "system" fn $name<'local>(
            mut unowned: EnvUnowned<'local>,
            _class: JClass<'local>,
            $($arg: $type),*
        ) -> $returns {
            unowned
                .with_env(|$env| -> std::result::Result<$returns, Failure> { $body })
                .resolve::<Throw>()
        }
    };
}

native!(Java_io_lakeward_flink_nativelib_Native_version, (env) -> JString<'local>, {
    Ok(JString::from_str(env, env!("CARGO_PKG_VERSION"))?)
});

native!(Java_io_lakeward_flink_nativelib_Native_plan, (env, request: Bytes<'local>) -> Bytes<'local>, {
    let request = bytes_of(env, &request)?;
    let lines = plan::plan(&request)?;
    Ok(env.byte_array_from_slice(lines.as_bytes())?)
});

native!(
    Java_io_lakeward_flink_nativelib_Native_open,
    (env, spec: Bytes<'local>, restored: Outputs<'local>) -> jlong,
    {
        let spec = bytes_of(env, &spec)?;
        let mut states = Vec::new();
        if !restored.is_null() {
            for i in 0..restored.len(env)? {
                let state = restored.get_element(env, i)?;
                states.push(bytes_of(env, &state)?);
            }
        }
        Ok(handle::open(&spec, states)?)
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_process,
    (env, handle: jlong, record: Bytes<'local>) -> Outputs<'local>,
    {
        let record = bytes_of(env, &record)?;
        outputs(env, handle::process(handle, record))
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_poll,
    (env, handle: jlong, news: Bytes<'local>) -> Outputs<'local>,
    {
        let news = match news.is_null() {
            true => None,
            false => {
                let text = String::from_utf8(bytes_of(env, &news)?);
                Some(text.map_err(|_| Error::bug("the names of marks are not UTF-8"))?)
            }
        };
        outputs(env, handle::poll(handle, news.as_deref()))
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_prepareSnapshot,
    (env, handle: jlong, checkpoint: jlong) -> Outputs<'local>,
    {
        let checkpoint = checkpoint_of(checkpoint)?;
        outputs(env, handle::prepare_snapshot(handle, checkpoint))
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_snapshotState,
    (env, handle: jlong, checkpoint: jlong) -> Bytes<'local>,
    {
        let state = handle::snapshot_state(handle, checkpoint_of(checkpoint)?)?;
        Ok(env.byte_array_from_slice(&state)?)
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_checkpointComplete,
    (env, handle: jlong, checkpoint: jlong) -> Outputs<'local>,
    {
        let checkpoint = checkpoint_of(checkpoint)?;
        outputs(env, handle::checkpoint_complete(handle, checkpoint))
    }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_finish,
    (env, handle: jlong) -> Outputs<'local>,
    { outputs(env, handle::finish(handle)) }
);

native!(
    Java_io_lakeward_flink_nativelib_Native_metrics,
    (env, handle: jlong) -> Bytes<'local>,
    { Ok(env.byte_array_from_slice(handle::metrics(handle)?.as_bytes())?) }
);

native!(Java_io_lakeward_flink_nativelib_Native_cancel, (_env, handle: jlong) -> (), {
    handle::cancel(handle);
    Ok(())
});

native!(Java_io_lakeward_flink_nativelib_Native_close, (_env, handle: jlong) -> (), {
    Ok(handle::close(handle)?)
});
