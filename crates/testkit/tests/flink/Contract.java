import io.lakeward.flink.nativelib.LakewardException;
import io.lakeward.flink.nativelib.Native;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Calls every native function as no one should; each answer has to be an exception, and the process has to live. */
public final class Contract {
    private static int refused;

    private interface Call {
        void run();
    }

    private static void mustRefuse(String what, Call call) {
        try {
            call.run();
        } catch (LakewardException e) {
            if (e.getMessage() == null || e.getMessage().isEmpty()) {
                throw new IllegalStateException(what + " is refused without a reason");
            }
            refused++;
            return;
        }
        throw new IllegalStateException(what + " is not refused");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) {
        byte[] pipeline = java.util.Base64.getEncoder().encode(bytes(arguments[0]));
        String named = "pipeline=" + new String(pipeline, StandardCharsets.UTF_8) + "\nfile=p.yaml\n";
        for (long handle : new long[] {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE}) {
            unknown(handle);
        }
        mustRefuse("a plan of null", () -> Native.plan(null));
        mustRefuse("a plan of nothing", () -> Native.plan(new byte[0]));
        mustRefuse("a plan of garbage", () -> Native.plan(new byte[] {-1, -2, 61}));
        mustRefuse("a spec of null", () -> Native.open(null, null));
        mustRefuse("a spec without keys", () -> Native.open(bytes(named), null));
        if (Native.plan(bytes(named)).length == 0) {
            throw new IllegalStateException("a plan is empty");
        }
        String spec =
                named
                        + "operator=StreamDdlHandler\nindex=0\nparallelism=1\nmemory.bytes=0\n"
                        + "scratch.dir="
                        + arguments[1]
                        + "\ncheckpoint.interval.ms=1000\n";
        mustRefuse("an operator of another job",
                () -> Native.open(bytes(spec.replace("StreamDdlHandler", "Nobody")), null));
        mustRefuse("states with a null", () -> Native.open(bytes(spec), new byte[][] {null}));
        open(spec);
        for (int n = 0; n < 50; n++) {
            long handle = Native.open(bytes(spec), new byte[][] {{1}});
            Native.close(handle);
        }
        System.out.println("refused " + refused);
    }

    private static void unknown(long handle) {
        mustRefuse("process", () -> Native.process(handle, new byte[8]));
        mustRefuse("poll", () -> Native.poll(handle, null));
        mustRefuse("prepareSnapshot", () -> Native.prepareSnapshot(handle, 1));
        mustRefuse("snapshotState", () -> Native.snapshotState(handle, 1));
        mustRefuse("checkpointComplete", () -> Native.checkpointComplete(handle, 1));
        mustRefuse("finish", () -> Native.finish(handle));
        mustRefuse("metrics", () -> Native.metrics(handle));
        Native.cancel(handle);
        Native.close(handle);
    }

    private static void open(String spec) {
        long handle = Native.open(bytes(spec), null);
        mustRefuse("a record of null", () -> Native.process(handle, null));
        mustRefuse("an empty record", () -> Native.process(handle, new byte[0]));
        mustRefuse("a begin of garbage", () -> Native.process(handle, new byte[] {0, 0, 0, 0, 1, 9}));
        mustRefuse("news of garbage", () -> Native.poll(handle, new byte[] {-1, -1}));
        mustRefuse("a negative checkpoint", () -> Native.prepareSnapshot(handle, -1));
        Random random = new Random(7);
        for (int n = 0; n < 200; n++) {
            byte[] record = new byte[5 + random.nextInt(300)];
            random.nextBytes(record);
            record[4] = 0;
            mustRefuse("a garbage frame", () -> Native.process(handle, record));
        }
        byte[] large = new byte[64 << 20];
        mustRefuse("a large record of nothing", () -> Native.process(handle, large));
        Native.poll(handle, new byte[0]);
        Native.metrics(handle);
        Native.cancel(handle);
        mustRefuse("a call after cancel", () -> Native.poll(handle, null));
        Native.close(handle);
        mustRefuse("a call after close", () -> Native.poll(handle, null));
        Native.close(handle);
    }
}
