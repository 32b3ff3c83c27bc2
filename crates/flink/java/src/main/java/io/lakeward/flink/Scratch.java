package io.lakeward.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ConfigurationUtils;
import org.apache.flink.util.FileUtils;

/** A folder of one operator instance on the local disks that Flink was given; gone when closed. */
final class Scratch {
    private final Path folder;

    Scratch(Configuration ofTaskManager, int index) throws IOException {
        String[] disks = ConfigurationUtils.parseTempDirectories(ofTaskManager);
        Path disk = Path.of(disks[index % disks.length]);
        Files.createDirectories(disk);
        folder = Files.createTempDirectory(disk, "lakeward-scratch-");
    }

    Path folder() {
        return folder;
    }

    void remove() throws IOException {
        FileUtils.deleteDirectory(folder.toFile());
    }
}
