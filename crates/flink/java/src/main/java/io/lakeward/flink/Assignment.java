package io.lakeward.flink;

import java.nio.ByteBuffer;
import java.util.BitSet;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The enumerator's state: how many readers there are, and which of them have their split. */
final class Assignment {
    final int readers;
    final BitSet assigned;

    Assignment(int readers, BitSet assigned) {
        this.readers = readers;
        this.assigned = assigned;
    }

    static final class Serializer implements SimpleVersionedSerializer<Assignment> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Assignment state) {
            byte[] bits = state.assigned.toByteArray();
            return ByteBuffer.allocate(4 + bits.length).putInt(state.readers).put(bits).array();
        }

        @Override
        public Assignment deserialize(int version, byte[] bytes) {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            return new Assignment(in.getInt(), BitSet.valueOf(in));
        }
    }
}
