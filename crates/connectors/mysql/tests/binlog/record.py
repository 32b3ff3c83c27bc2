#!/usr/bin/env python3
"""Records binlog files and what SELECT answers, for the decoder's tests.

usage: record.py LOG_DIR PREFIX CLIENT...
       LOG_DIR: where the server keeps its binlog files; PREFIX: `mariadb` or `mysql`, the cases to run;
       CLIENT...: the client's command line, allowed to do everything.

Each cases/PREFIX-*.sql runs in a database of its own, in a log file of its own, and leaves recorded/NAME.binlog and
recorded/NAME.json: for each table its SHOW CREATE TABLE and its rows in a plain text form, in the order of the first column.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).parent
LOG_DIR, PREFIX, CLIENT = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


def run(sql, database=None):
    command = CLIENT + ["--default-character-set=utf8mb4", "-N", "--raw", "--batch"]
    done = subprocess.run(command + ([database] if database else []), input=sql, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{done.stderr}\nin\n{sql[:2000]}")
    return done.stdout


def rows(sql, database=None):
    return [line.split("\t") for line in run(sql, database).split("\n")[:-1]]


def expression(name, data_type, column_type):
    q = "`" + name.replace("`", "``") + "`"
    if data_type in ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "double"):
        return q if data_type in ("bigint", "double") else q + "+0"
    if data_type == "float":
        return f"CAST({q} AS DOUBLE)"
    if data_type == "decimal":
        return q + "+0" if "zerofill" in column_type else q
    if data_type in ("date", "time", "datetime", "timestamp"):
        return f"CAST({q} AS CHAR)"
    if data_type in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"):
        return f"CONCAT('x', HEX({q}))"
    if data_type in ("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"):
        return f"CONCAT('x', HEX(ST_AsWKB({q})))"
    return f"CONCAT('t', HEX(CONVERT(CAST({q} AS CHAR) USING utf8mb4)))"


def plain(text, data_type):
    """Dates that no calendar has are null; fractions have six digits."""
    if text == "NULL":
        return None
    if data_type in ("date", "datetime", "timestamp"):
        y, m, d = (int(p) for p in text[:10].split("-"))
        leap = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
        lengths = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        if not 1 <= m <= 12 or not 1 <= d <= lengths[m - 1]:
            return None
    if data_type in ("time", "datetime", "timestamp"):
        whole, _, fraction = text.partition(".")
        return f"{whole}.{fraction.ljust(6, '0')}"
    # Long values only by their length and checksum.
    if text[0] in "tx" and len(text) > 400:
        value = bytes.fromhex(text[1:])
        return f"{text[0]}~{len(value)}~{zlib.crc32(value):08x}"
    return text


def record(case):
    name = case.stem
    database = name.replace("-", "_")
    run(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; FLUSH BINARY LOGS;")
    log = next(r for r in reversed(rows("SHOW BINARY LOGS")))[0]
    run("SET time_zone='+00:00', sql_mode='NO_ENGINE_SUBSTITUTION';\n" + case.read_text(), database)
    run("FLUSH BINARY LOGS")
    tables = {}
    for (table,) in rows(f"SELECT table_name FROM information_schema.tables WHERE table_schema='{database}' ORDER BY 1"):
        columns = rows("SELECT column_name, data_type, column_type FROM information_schema.columns "
                       f"WHERE table_schema='{database}' AND table_name='{table}' ORDER BY ordinal_position")
        quoted = "`" + table.replace("`", "``") + "`"
        create = run(f"SET sql_mode='NO_ENGINE_SUBSTITUTION'; SHOW CREATE TABLE {quoted}", database)
        select = ", ".join(expression(*c) for c in columns)
        found = rows(f"SET time_zone='+00:00'; SELECT {select} FROM {quoted} ORDER BY 1", database)
        tables[table] = {
            "create": create.partition("\t")[2],
            "rows": [[plain(v, c[1]) for v, c in zip(row, columns)] for row in found],
        }
    target = HERE / "recorded"
    target.mkdir(exist_ok=True)
    shutil.copyfile(LOG_DIR / log, target / f"{name}.binlog")
    text = json.dumps({"version": run("SELECT VERSION()").strip(), "tables": tables}, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\n\s+(?=[\"n])", "[", text)
    text = re.sub(r"(?<=[\"l],)\n\s+(?=[\"n])(?!\"create|\"rows|\"tables)", " ", text)
    (target / f"{name}.json").write_text(re.sub(r"(?<=[\"l])\n\s+\]", "]", text) + "\n")
    print(name, (LOG_DIR / log).stat().st_size, {t: len(v["rows"]) for t, v in tables.items()})


if PREFIX == "mysql":
    # So that the tagged GTIDs of one case are new each time.
    run("RESET BINARY LOGS AND GTIDS")
for case in sorted((HERE / "cases").glob(f"{PREFIX}-*.sql")):
    record(case)
