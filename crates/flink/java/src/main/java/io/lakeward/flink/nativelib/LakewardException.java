package io.lakeward.flink.nativelib;

/** An error of the Rust side: its whole chain of causes as the message, and how to react to it. */
public final class LakewardException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String kind;

    /** Called by the library; {@code kind} is the name of an error kind of Lakeward's core. */
    public LakewardException(String kind, String message) {
        super(message);
        this.kind = kind;
    }

    /** For instance {@code Transient}, {@code Config} or {@code Bug}. */
    public String kind() {
        return kind;
    }

    /** Whether another attempt of the job would end in the same way, or do damage. */
    public boolean isFinal() {
        return !kind.equals("Transient") && !kind.equals("Bug");
    }

    @Override
    public String toString() {
        return getClass().getName() + " (" + kind + "): " + getMessage();
    }
}
