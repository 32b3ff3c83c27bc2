package io.lakeward.flink;

import java.util.Arrays;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The one split of a pipeline's source: the state that its reader starts from; empty at first. */
final class ReaderState implements SourceSplit {
    final byte[] bytes;

    ReaderState(byte[] bytes) {
        this.bytes = bytes;
    }

    @Override
    public String splitId() {
        return "reader";
    }

    static final class Serializer implements SimpleVersionedSerializer<ReaderState> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(ReaderState split) {
            return Arrays.copyOf(split.bytes, split.bytes.length);
        }

        @Override
        public ReaderState deserialize(int version, byte[] bytes) {
            return new ReaderState(bytes);
        }
    }
}
