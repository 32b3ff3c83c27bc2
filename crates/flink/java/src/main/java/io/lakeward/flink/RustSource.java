package io.lakeward.flink;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The source of a pipeline: one split, read by Rust. */
final class RustSource implements Source<byte[], ReaderState, Boolean> {
    private static final long serialVersionUID = 1;

    private final KeyValues spec;
    private final String marksFolder;

    RustSource(KeyValues spec, String marksFolder) {
        this.spec = spec;
        this.marksFolder = marksFolder;
    }

    /** Rust knows whether there is an end; the job streams in either case. */
    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<byte[], ReaderState> createReader(SourceReaderContext context) {
        return new RustReader(context, spec, marksFolder);
    }

    @Override
    public SplitEnumerator<ReaderState, Boolean> createEnumerator(
            SplitEnumeratorContext<ReaderState> context) {
        return new OneSplit(context, false);
    }

    @Override
    public SplitEnumerator<ReaderState, Boolean> restoreEnumerator(
            SplitEnumeratorContext<ReaderState> context, Boolean assigned) {
        return new OneSplit(context, assigned);
    }

    @Override
    public SimpleVersionedSerializer<ReaderState> getSplitSerializer() {
        return new ReaderState.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new OneSplit.Serializer();
    }
}
