"""Reads Iceberg tables with engines that are not ours. One JSON request per line in, one JSON answer per line out.

    {"op": "tables", "catalog": FILE}                          the tables of a SQL catalog in an SQLite file
    {"op": "rows", "metadata": FILE, "reader": R, "out": FILE} rows as lines {"r": [text or null, ...]}; R: duckdb, pyiceberg
    {"op": "rewrite", "catalog": FILE, "warehouse": URI, "table": "ns.name"}   a foreign writer replaces all data files
    {"op": "append", ..., "rows": {column: [values]}}          a foreign writer appends
    {"op": "create", ..., "fields": [Iceberg's JSON], "rows": {column: [values]}}  a foreign writer makes a table
    {"op": "lock", "catalog": FILE, "seconds": S}              nobody can commit for so long
    {"op": "drop", ...}                                        a foreign client takes a table out of the catalog
    {"op": "expire", ..., "keep": N}                           a foreign writer expires all but the newest N snapshots
    {"op": "objects", "bucket": B, "store": ...}               keys of all files in a bucket
    {"op": "copy_object", "key": K, "word": W, "store": ...}   copies a file beside itself

Where files are in a store that speaks S3, "store" has its properties in PyIceberg's words.

Values are texts in one form for both readers: integers and decimals in digits, floats in the shortest digits that come
back, dates as days and timestamps as microseconds since 1970, bytes in upper-case hex.
"""
import glob
import json
import os
import re
import site
import sqlite3
import sys
import time
from urllib.parse import unquote

import duckdb


def local(location):
    path = location.removeprefix("file://").removeprefix("file:")
    return path if os.path.exists(path) else unquote(path)


def connect():
    con = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        pattern = f"duckdb_extension_{name}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"
        path = next(p for f in site.getsitepackages() for p in glob.glob(os.path.join(f, pattern)))
        con.execute(f"LOAD '{path}'")
    con.execute("SET threads=1; SET TimeZone='UTC'; SET preserve_insertion_order=false")
    return con


CON = connect()
# Properties of the store of the request that is being answered.
STORE = {}


def use_store(properties):
    global STORE
    STORE = properties or {}
    if STORE:
        host = STORE["s3.endpoint"].removeprefix("http://")
        CON.execute(f"CREATE OR REPLACE SECRET store (TYPE s3, ENDPOINT '{host}', USE_SSL false, URL_STYLE 'path', "
                    f"REGION '{STORE['s3.region']}', KEY_ID '{STORE['s3.access-key-id']}', "
                    f"SECRET '{STORE['s3.secret-access-key']}')")


def store_files():
    from pyarrow.fs import S3FileSystem
    return S3FileSystem(endpoint_override=STORE["s3.endpoint"], region=STORE["s3.region"],
                        access_key=STORE["s3.access-key-id"], secret_key=STORE["s3.secret-access-key"])


def read_json(location):
    if location.startswith("s3://"):
        with store_files().open_input_stream(location.removeprefix("s3://")) as f:
            return json.loads(f.read())
    with open(local(location), encoding="utf-8") as f:
        return json.load(f)


def objects(bucket):
    from pyarrow.fs import FileSelector, FileType
    found = store_files().get_file_info(FileSelector(bucket, recursive=True))
    return {"objects": sorted(f.path for f in found if f.type == FileType.File)}


def copy_object(key, word):
    name, dot, end = key.rpartition(".")
    copy = f"{name}-{word}{dot}{end}"
    store_files().copy_file(key, copy)
    return {"copy": copy}


def tables(catalog):
    if not os.path.exists(catalog):
        return {"tables": []}
    con = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=30)
    try:
        found = con.execute("SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
                            "WHERE metadata_location IS NOT NULL ORDER BY 1, 2").fetchall()
    except sqlite3.OperationalError as problem:
        if "no such table" in str(problem):
            return {"tables": []}
        raise
    finally:
        con.close()
    return {"tables": [{"namespace": ns, "name": name, **table(where)} for ns, name, where in found]}


def table(location):
    m = read_json(location)
    schemas = {s["schema-id"]: s for s in m["schemas"]}
    now = schemas[m["current-schema-id"]]
    names = {f["id"]: f["name"] for f in now["fields"]}
    spec = next(s for s in m["partition-specs"] if s["spec-id"] == m["default-spec-id"])
    return {
        "metadata": location,
        "columns": [column(f) for f in now["fields"]],
        "first_columns": [column(f) for f in schemas[min(schemas)]["fields"]],
        "identifier": [names[i] for i in now.get("identifier-field-ids") or ()],
        "partition": [names.get(p["source-id"], "?") for p in spec["fields"] if p["transform"] != "void"],
        "properties": m.get("properties", {}),
        "snapshot": None if m.get("current-snapshot-id") in (None, -1) else m["current-snapshot-id"],
        "last_sequence_number": m.get("last-sequence-number", 0),
        "committed_ms": [s["timestamp-ms"] for s in m.get("snapshots", ())],
        "summaries": [s.get("summary", {}) for s in m.get("snapshots", ())],
    }


def column(field):
    kind = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
    return {"id": field["id"], "name": field["name"], "type": re.sub(r",\s*", ",", kind), "required": field["required"]}


def text(name, kind):
    if kind.startswith("TIMESTAMP"):
        return f"epoch_us({name})::VARCHAR"
    if kind == "DATE":
        return f"({name} - DATE '1970-01-01')::VARCHAR"
    if kind == "TIME":
        return f"epoch_us({name})::VARCHAR"
    if kind == "BLOB":
        return f"hex({name})"
    return f"{name}::VARCHAR"


def rows(metadata, reader, out):
    if table(metadata)["snapshot"] is None:
        open(out, "w", encoding="utf-8").close()
        return {"rows": 0}
    con = CON.cursor()
    if reader == "duckdb":
        source = "iceberg_scan('%s')" % metadata.replace("'", "''")
    else:
        from pyiceberg.table import StaticTable
        arrow = StaticTable.from_metadata(metadata, STORE).scan().to_arrow()
        arrow = arrow.rename_columns([f"c{i}" for i in range(arrow.num_columns)])
        con.register("arrow_rows", arrow)
        source = "arrow_rows"
    kinds = [str(r[1]) for r in con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
    names = [f"c{i}" for i in range(len(kinds))]
    values = ", ".join(text(n, k) for n, k in zip(names, kinds))
    where = out.replace("'", "''")
    con.execute(f"COPY (SELECT [{values}] AS r FROM {source} AS t({', '.join(names)})) TO '{where}' (FORMAT json)")
    counted = con.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
    con.close()
    return {"rows": counted, "columns": len(names)}


def open_table(catalog, warehouse, name):
    from pyiceberg.catalog.sql import SqlCatalog
    found = SqlCatalog("lake", uri=f"sqlite:///{catalog}", warehouse=warehouse)
    with sqlite3.connect(f"file:{catalog}?mode=ro", uri=True) as con:
        owner = con.execute("SELECT catalog_name FROM iceberg_tables LIMIT 1").fetchone()
    if owner and owner[0] != "lake":
        found = SqlCatalog(owner[0], uri=f"sqlite:///{catalog}", warehouse=warehouse)
    return found.load_table(tuple(name.rsplit(".", 1)))


def again(action):
    """A foreign writer that loses a race tries again, as Spark and Flink do."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    for attempt in range(50):
        try:
            return action()
        except (CommitFailedException, ValidationException):
            time.sleep(0.02 * (attempt % 5))
    raise RuntimeError("the foreign writer lost 50 races")


def create(catalog, warehouse, table, fields, rows):
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.schema import Schema
    found = SqlCatalog("lake", uri=f"sqlite:///{catalog}", warehouse=warehouse)
    schema = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})
    found.create_namespace_if_not_exists(table.rsplit(".", 1)[0])
    made = found.create_table(tuple(table.rsplit(".", 1)), schema)
    arrow = made.schema().as_arrow()
    columns = [pa.array(rows[f.name]).cast(f.type) for f in arrow]
    made.append(pa.table(columns, schema=arrow))
    return {}


def rewrite(**where):
    def action():
        t = open_table(where["catalog"], where["warehouse"], where["table"])
        t.overwrite(t.scan().to_arrow().cast(t.schema().as_arrow()))
        return {"snapshot": t.current_snapshot().snapshot_id}
    return again(action)


def append(**where):
    import pyarrow as pa

    def action():
        t = open_table(where["catalog"], where["warehouse"], where["table"])
        t.append(pa.table(where["rows"], schema=t.schema().as_arrow()))
        return {"snapshot": t.current_snapshot().snapshot_id}
    return again(action)


def expire(**where):
    def action():
        t = open_table(where["catalog"], where["warehouse"], where["table"])
        ids = [s.snapshot_id for s in sorted(t.metadata.snapshots, key=lambda s: s.sequence_number)]
        old = ids[:-where["keep"]]
        if old:
            t.maintenance.expire_snapshots().by_ids(old).commit()
        return {"expired": len(old)}
    return again(action)


def drop(catalog, warehouse, table):
    with sqlite3.connect(catalog, timeout=30) as con:
        namespace, name = table.rsplit(".", 1)
        gone = con.execute("DELETE FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (namespace, name))
        if gone.rowcount != 1:
            raise RuntimeError(f"{table} is not in the catalog")
    return {}


def lock(catalog, seconds):
    con = sqlite3.connect(catalog, timeout=30, isolation_level=None)
    con.execute("BEGIN EXCLUSIVE")
    time.sleep(seconds)
    con.execute("ROLLBACK")
    con.close()
    return {}


OPERATIONS = {"lock": lock, "drop": drop, "objects": objects, "copy_object": copy_object, "tables": tables, "rows": rows, "rewrite": rewrite, "append": append, "expire": expire,
              "create": create}

for line in sys.stdin:
    request = json.loads(line)
    try:
        use_store(request.pop("store", None))
        answer = OPERATIONS[request.pop("op")](**request)
    except Exception as problem:
        answer = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(answer, ensure_ascii=False), flush=True)
