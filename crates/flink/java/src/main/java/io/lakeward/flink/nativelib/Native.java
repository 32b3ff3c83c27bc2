package io.lakeward.flink.nativelib;

/**
 * The functions of the Rust library. Integers in the arrays are little endian, strings UTF-8.
 *
 * <p>An output is {@code [i32 target][payload]}: a record for one instance of the next stage, or,
 * with a negative target, a control for {@code io.lakeward.flink.Handle}. Each function throws
 * {@link LakewardException}. A handle belongs to one thread at a time; only {@link #cancel} may be
 * called from another.
 */
public final class Native {
    static {
        NativeLibrary.load();
    }

    private Native() {}

    public static native String version();

    /** What the job graph of a pipeline looks like: lines {@code key=value} in and out. */
    public static native byte[] plan(byte[] request);

    /** Makes an operator instance. {@code restored}: all state found for it; null when fresh. */
    public static native long open(byte[] spec, byte[][] restored);

    public static native byte[][] process(long handle, byte[] record);

    /** {@code news}: the marks in the watched folders, a line each; null when nobody looked. */
    public static native byte[][] poll(long handle, byte[] news);

    /** The barrier has arrived: the outputs belong before it. */
    public static native byte[][] prepareSnapshot(long handle, long checkpoint);

    /** The state of the instance; empty when there is none. */
    public static native byte[] snapshotState(long handle, long checkpoint);

    public static native byte[][] checkpointComplete(long handle, long checkpoint);

    /** The input has ended. */
    public static native byte[][] finish(long handle);

    /** Lines {@code name=number}. */
    public static native byte[] metrics(long handle);

    /** Lets the call in flight and all later ones throw. From any thread. */
    public static native void cancel(long handle);

    /** Does nothing to a handle that is closed. */
    public static native void close(long handle);
}
