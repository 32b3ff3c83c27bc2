package io.lakeward.flink;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;

/** Lines {@code key=value}: how requests, plans, specs and metrics cross the border to Rust. */
final class KeyValues implements Serializable {
    private static final long serialVersionUID = 1;

    private final Map<String, String> values = new LinkedHashMap<>();

    static KeyValues read(byte[] lines) {
        KeyValues read = new KeyValues();
        for (String line : new String(lines, StandardCharsets.UTF_8).split("\n")) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                read.values.put(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        return read;
    }

    /** A null value is left out. */
    KeyValues with(String key, Object value) {
        if (value != null) {
            values.put(key, value.toString());
        }
        return this;
    }

    KeyValues copy() {
        KeyValues copy = new KeyValues();
        copy.values.putAll(values);
        return copy;
    }

    /** Empty when there is none. */
    String get(String key) {
        return values.getOrDefault(key, "");
    }

    int number(String key) {
        try {
            return Integer.parseInt(get(key));
        } catch (NumberFormatException e) {
            throw new IllegalStateException("the plan says " + key + "=" + get(key), e);
        }
    }

    void forEach(BiConsumer<String, String> action) {
        values.forEach(action);
    }

    byte[] write() {
        StringBuilder lines = new StringBuilder();
        values.forEach((key, value) -> lines.append(key).append('=').append(value).append('\n'));
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }
}
