package io.lakeward.flink;

/**
 * Cancels a handle when the thread that is in it is interrupted: that is how Flink tells a source's
 * task to end, and native code does not notice it.
 */
final class Cancellation {
    private static final long LOOK_INTERVAL_MS = 100;

    private final Thread watcher;

    /** Watches the calling thread. */
    Cancellation(Handle handle) {
        Thread task = Thread.currentThread();
        watcher = new Thread(() -> watch(task, handle), "cancellation of " + task.getName());
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void watch(Thread task, Handle handle) {
        try {
            while (!task.isInterrupted()) {
                Thread.sleep(LOOK_INTERVAL_MS);
            }
            handle.cancel();
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    void close() {
        watcher.interrupt();
    }
}
