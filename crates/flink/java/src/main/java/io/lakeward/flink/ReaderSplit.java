package io.lakeward.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The share of one reader: number {@code index} of {@code of}, and the state it starts from. */
final class ReaderSplit implements SourceSplit, Serializable {
    private static final long serialVersionUID = 1;

    final int index;
    final int of;

    /** Of this reader; of all former readers after a change of their number; none at first. */
    final ArrayList<byte[]> states;

    ReaderSplit(int index, int of, List<byte[]> states) {
        this.index = index;
        this.of = of;
        this.states = new ArrayList<>(states);
    }

    @Override
    public String splitId() {
        return "reader-" + index;
    }

    static final class Serializer implements SimpleVersionedSerializer<ReaderSplit> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(ReaderSplit split) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(split.index);
            out.writeInt(split.of);
            out.writeInt(split.states.size());
            for (byte[] state : split.states) {
                out.writeInt(state.length);
                out.write(state);
            }
            return bytes.toByteArray();
        }

        @Override
        public ReaderSplit deserialize(int version, byte[] bytes) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            ReaderSplit split = new ReaderSplit(in.readInt(), in.readInt(), List.of());
            for (int left = in.readInt(); left > 0; left--) {
                byte[] state = new byte[in.readInt()];
                in.readFully(state);
                split.states.add(state);
            }
            return split;
        }
    }
}
