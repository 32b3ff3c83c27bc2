//! Reads the lake back with engines that are not ours: DuckDB and PyIceberg, through one small Python program.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::object_store::ObjectStore;
use crate::{cache, venv};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    DuckDb,
    PyIceberg,
}

impl Reader {
    pub const ALL: [Reader; 2] = [Reader::DuckDb, Reader::PyIceberg];

    pub fn name(self) -> &'static str {
        match self {
            Reader::DuckDb => "duckdb",
            Reader::PyIceberg => "pyiceberg",
        }
    }
}

/// A SQL catalog in an SQLite file, as the pipelines of tests use it.
#[derive(Debug, Clone)]
pub struct Lake {
    pub catalog: PathBuf,
    pub warehouse: PathBuf,
    /// Where a warehouse on S3 is and what opens it, in PyIceberg's words.
    store: Option<Value>,
}

/// What a table's metadata file says.
#[derive(Debug, Clone, Deserialize)]
pub struct LakeTable {
    pub namespace: String,
    pub name: String,
    /// Location of the metadata file.
    pub metadata: String,
    pub columns: Vec<LakeColumn>,
    /// The columns of the table's first schema.
    pub first_columns: Vec<LakeColumn>,
    /// Names of the identifier fields.
    pub identifier: Vec<String>,
    /// Source columns of the partition fields.
    pub partition: Vec<String>,
    pub properties: std::collections::BTreeMap<String, String>,
    pub snapshot: Option<i64>,
    pub last_sequence_number: u64,
    /// When the snapshots that are still there were made, oldest first.
    pub committed_ms: Vec<i64>,
    /// Summaries of the snapshots that are still there.
    pub summaries: Vec<std::collections::BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LakeColumn {
    pub id: i32,
    pub name: String,
    /// Iceberg's word, decimals as `decimal(10,2)`.
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
}

/// A row in the text forms that `python/lake.py` documents.
pub type LakeRow = Vec<Option<String>>;

impl Lake {
    /// `catalog.db` and `warehouse` in a folder.
    pub fn in_folder(folder: &Path) -> Self {
        let (catalog, warehouse) = (folder.join("catalog.db"), folder.join("warehouse"));
        Self { catalog, warehouse, store: None }
    }

    /// The same catalog, with its files in a store.
    pub fn on(self, store: &ObjectStore) -> Self {
        Self { store: Some(Value::Object(store.properties())), ..self }
    }

    /// Keys of all files below the warehouse in a bucket, sorted.
    pub fn objects(&self, bucket: &str) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Answer {
            objects: Vec<String>,
        }
        let request = json!({"op": "objects", "bucket": bucket, "store": self.store});
        Ok(ask::<Answer>(request)?.objects)
    }

    /// Copies a file of a store beside itself, with a word before the end of its name; returns the copy's key.
    pub fn copy_object(&self, key: &str, word: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Answer {
            copy: String,
        }
        let request = json!({"op": "copy_object", "key": key, "word": word, "store": self.store});
        Ok(ask::<Answer>(request)?.copy)
    }

    pub fn tables(&self) -> Result<Vec<LakeTable>> {
        #[derive(Deserialize)]
        struct Answer {
            tables: Vec<LakeTable>,
        }
        Ok(ask::<Answer>(json!({"op": "tables", "catalog": self.catalog, "store": self.store}))?
            .tables)
    }

    pub fn table(&self, namespace: &str, name: &str) -> Result<LakeTable> {
        let tables = self.tables()?;
        let found = tables.into_iter().find(|t| t.namespace == namespace && t.name == name);
        found.with_context(|| format!("the lake has no table {namespace}.{name}"))
    }

    /// All live rows of a table, in no order.
    pub fn rows(&self, table: &LakeTable, reader: Reader) -> Result<Vec<LakeRow>> {
        let mut rows = Vec::new();
        self.each_row(table, reader, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    pub fn each_row(
        &self,
        table: &LakeTable,
        reader: Reader,
        mut f: impl FnMut(LakeRow) -> Result<()>,
    ) -> Result<()> {
        #[derive(Deserialize)]
        struct Answer {
            rows: usize,
        }
        #[derive(Deserialize)]
        struct Line {
            r: LakeRow,
        }
        let out = tempfile::NamedTempFile::new()?;
        let answer: Answer = ask(json!({
            "op": "rows", "metadata": table.metadata, "reader": reader.name(), "out": out.path(),
            "store": self.store,
        }))
        .with_context(|| format!("{} cannot read {}", reader.name(), table.name))?;
        let mut seen = 0;
        for line in BufReader::new(fs::File::open(out.path())?).lines() {
            let line: Line = serde_json::from_str(&line?)?;
            if line.r.len() != table.columns.len() {
                let (has, shows) = (table.columns.len(), line.r.len());
                bail!("{} has {has} columns, {} shows {shows}", table.name, reader.name());
            }
            f(line.r)?;
            seen += 1;
        }
        if seen != answer.rows {
            bail!("{} counts {} rows and shows {seen}", reader.name(), answer.rows);
        }
        Ok(())
    }

    /// A foreign writer replaces all data files of a table by new ones with the same rows.
    pub fn rewrite(&self, table: &str) -> Result<()> {
        self.act("rewrite", table, &[]).map(drop)
    }

    /// A foreign writer appends rows, given as columns.
    pub fn append(&self, table: &str, rows: Value) -> Result<()> {
        self.act("append", table, &[("rows", rows)]).map(drop)
    }

    /// Nobody can commit for so long. Blocks as long.
    pub fn lock(&self, seconds: u64) -> Result<()> {
        ask::<Value>(json!({"op": "lock", "catalog": self.catalog, "seconds": seconds})).map(drop)
    }

    /// A foreign writer makes a table: fields in Iceberg's JSON, rows as columns.
    pub fn create(&self, table: &str, fields: Value, rows: Value) -> Result<()> {
        self.act("create", table, &[("fields", fields), ("rows", rows)]).map(drop)
    }

    /// A foreign writer expires all but the newest snapshots of a table.
    pub fn expire(&self, table: &str, keep: usize) -> Result<()> {
        self.act("expire", table, &[("keep", json!(keep))]).map(drop)
    }

    /// A foreign client takes a table out of the catalog; its files stay.
    pub fn drop(&self, table: &str) -> Result<()> {
        self.act("drop", table, &[]).map(drop)
    }

    fn act(&self, op: &str, table: &str, more: &[(&str, Value)]) -> Result<Value> {
        let mut request = json!({
            "op": op, "catalog": self.catalog, "table": table,
            "warehouse": format!("file://{}", self.warehouse.display()),
        });
        for (key, value) in more {
            request[*key] = value.clone();
        }
        ask(request).with_context(|| format!("a foreign {op} of {table} failed"))
    }
}

/// A running `python/lake.py`. Starting one costs a second, so they are kept for the next request.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

static IDLE: Mutex<Vec<Program>> = Mutex::new(Vec::new());

fn ask<T: DeserializeOwned>(request: Value) -> Result<T> {
    let idle = IDLE.lock().expect("no holder panics").pop();
    let mut program = match idle {
        Some(program) => program,
        None => Program::start()?,
    };
    let answer = program.ask(&request)?;
    IDLE.lock().expect("no holder panics").push(program);
    if let Some(error) = answer.get("error") {
        bail!("{}", error.as_str().unwrap_or("no reason given"));
    }
    Ok(serde_json::from_value(answer)?)
}

impl Program {
    fn start() -> Result<Self> {
        let script = cache::workspace().join("crates/testkit/python/lake.py");
        // It ends when its input does: with this process.
        let mut child = Command::new(venv::find()?)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the lake readers")?;
        let input = child.stdin.take().expect("asked for as a pipe");
        let output = BufReader::new(child.stdout.take().expect("asked for as a pipe"));
        Ok(Self { child, input, output })
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.input, "{request}")?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the lake readers ended: {:?}", self.child.wait()?);
        }
        Ok(serde_json::from_str(&line)?)
    }
}
