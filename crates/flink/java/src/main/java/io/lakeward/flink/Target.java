package io.lakeward.flink;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.flink.api.common.functions.Partitioner;
import org.apache.flink.api.java.functions.KeySelector;

/** Which instance of the next stage an output is for: its first four bytes, chosen by Rust. */
final class Target implements KeySelector<byte[], Integer>, Partitioner<Integer> {
    private static final long serialVersionUID = 1;

    private final String stage;
    private final int planned;

    /** {@code planned}: the instances that Rust reckons with. */
    Target(String stage, int planned) {
        this.stage = stage;
        this.planned = planned;
    }

    static int of(byte[] output) {
        return ByteBuffer.wrap(output).order(ByteOrder.LITTLE_ENDIAN).getInt();
    }

    @Override
    public Integer getKey(byte[] output) {
        return of(output);
    }

    @Override
    public int partition(Integer target, int instances) {
        if (instances != planned) {
            throw new IllegalStateException(
                    stage + " runs " + instances + " times where the pipeline was planned for "
                            + planned + "; its parallelism can be changed in the pipeline only");
        }
        if (target >= planned) {
            throw new IllegalStateException("no instance " + target + " of " + stage);
        }
        return target;
    }
}
