package io.lakeward.flink;

import io.lakeward.flink.nativelib.LakewardException;
import io.lakeward.flink.nativelib.Native;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One operator instance in Rust: forwards what it puts out, does what it asks for by controls, and
 * turns its errors into those that Flink understands. For the task's thread, except
 * {@link #cancel}.
 */
final class Handle {
    private static final int LOG = -1;
    private static final int LEAVE = -2;
    private static final int WATCH = -3;
    private static final int UNWATCH = -4;
    private static final int CLEAR = -5;
    private static final int MORE = -6;
    private static final int END = -7;
    private static final int STORE = -8;

    private final Marks marks;
    private final NativeMetrics metrics;
    private final Consumer<byte[]> records;
    private final long handle;
    private boolean more;
    private boolean ended;

    /** {@code records} receives what is for the next stage. */
    Handle(KeyValues spec, byte[][] restored, Marks marks, NativeMetrics metrics,
            Consumer<byte[]> records) {
        this.marks = marks;
        this.metrics = metrics;
        this.records = records;
        this.handle = guard(() -> Native.open(spec.write(), restored));
    }

    void process(byte[] record) throws IOException {
        deliver(guard(() -> Native.process(handle, record)));
    }

    /** Lets time pass: news of marks go in, what has become ready comes out. */
    void poll() throws IOException {
        byte[] news = marks.news();
        deliver(guard(() -> Native.poll(handle, news)));
        if (metrics.isDue()) {
            metrics.take(guard(() -> Native.metrics(handle)));
        }
    }

    void prepareSnapshot(long checkpoint) throws IOException {
        deliver(guard(() -> Native.prepareSnapshot(handle, checkpoint)));
    }

    byte[] snapshotState(long checkpoint) {
        return guard(() -> Native.snapshotState(handle, checkpoint));
    }

    void checkpointComplete(long checkpoint) throws IOException {
        deliver(guard(() -> Native.checkpointComplete(handle, checkpoint)));
    }

    void finish() throws IOException {
        deliver(guard(() -> Native.finish(handle)));
    }

    /** Whether a source has said that nothing follows. */
    boolean hasEnded() {
        return ended;
    }

    void cancel() {
        Native.cancel(handle);
    }

    void close() {
        guard(
                () -> {
                    Native.close(handle);
                    return null;
                });
    }

    private void deliver(byte[][] outputs) throws IOException {
        forward(outputs);
        while (more) {
            more = false;
            forward(guard(() -> Native.poll(handle, null)));
        }
    }

    private void forward(byte[][] outputs) throws IOException {
        for (byte[] output : outputs) {
            int target = Target.of(output);
            if (target >= 0) {
                records.accept(output);
            } else {
                obey(target, output);
            }
        }
    }

    private void obey(int control, byte[] output) throws IOException {
        switch (control) {
            case LOG:
                log(output[4], text(output, 5));
                break;
            case LEAVE:
                marks.leave(text(output, 4));
                break;
            case WATCH:
                marks.watch(text(output, 4));
                break;
            case UNWATCH:
                marks.unwatch(text(output, 4));
                break;
            case CLEAR:
                marks.clear(text(output, 4));
                break;
            case MORE:
                more = true;
                break;
            case END:
                ended = true;
                break;
            case STORE:
                marks.store(output, 4);
                break;
            default:
                throw new IllegalStateException("unknown control of the library: " + control);
        }
    }

    private static void log(byte level, String named) {
        int end = named.indexOf('\0');
        Logger logger = LoggerFactory.getLogger(named.substring(0, end).replace("::", "."));
        String message = named.substring(end + 1);
        switch (level) {
            case 1:
                logger.error(message);
                break;
            case 2:
                logger.warn(message);
                break;
            case 3:
                logger.info(message);
                break;
            default:
                logger.debug(message);
        }
    }

    private static String text(byte[] output, int from) {
        return new String(output, from, output.length - from, StandardCharsets.UTF_8);
    }

    private interface Call<T> {
        T run();
    }

    private static <T> T guard(Call<T> call) {
        try {
            return call.run();
        } catch (LakewardException e) {
            throw e.isFinal() ? new SuppressRestartsException(e) : e;
        }
    }
}
