//! The pipeline file: YAML in Flink CDC's grammar, to sections whose options know their line.
//!
//! A known option keeps its Flink CDC name, default and meaning; one that only makes sense on the JVM is named in one
//! warning; an unknown one is an error with the nearest known name. Secrets come as `${env:NAME}` or `${file:PATH}` and
//! are never printed.

pub mod options;
pub mod pipeline;
pub mod section;
pub mod typed;
pub mod value;
mod yaml;

use std::path::{Path, PathBuf};

use lakeward_core::{Error, Result};
use lakeward_operators::{RouteRule, Routes, ShardKey};

use options::nearest;
pub use pipeline::PipelineConfig;
use section::{NoReferences, OptionValue, ProcessReferences, References, Section};
use typed::read_section;
use yaml::{Entry, Node, Value, at};

const TOP_LEVEL: [&str; 5] = ["source", "sink", "route", "transform", "pipeline"];

/// A read file. `source` and `sinks` hold the options of connectors that are not yet known.
#[derive(Debug)]
pub struct PipelineFile {
    pub path: PathBuf,
    pub source: Endpoint,
    /// At least one. Their names differ.
    pub sinks: Vec<Endpoint>,
    pub schema_changes: SchemaChangeLists,
    pub routes: Routes,
    pub pipeline: PipelineConfig,
    /// Options that were accepted and do nothing, as `section: key`.
    pub ignored: Vec<String>,
}

/// The `source` section, or one of `sink`: which connector, and its options.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The option `name`, else the connector.
    pub name: String,
    pub connector: String,
    /// Where `type` stands.
    pub line: usize,
    pub options: Section,
}

/// The sink's `include.schema.changes` (empty: all) and `exclude.schema.changes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaChangeLists {
    pub include: Vec<String>,
    pub exclude: Vec<String>,
}

/// What of a file a command is going to use. Secrets of the rest need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    All,
    Sink,
    /// The `pipeline` section: where the job is.
    Pipeline,
}

impl PipelineFile {
    pub fn load(path: &Path, used: Use) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::config("the pipeline file cannot be read")
                .with("file", path.display())
                .with_source(e)
        })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Self::parse(path, &text, &ProcessReferences { folder }, used)
    }

    pub fn parse(path: &Path, text: &str, references: &dyn References, used: Use) -> Result<Self> {
        Reader { references, used, ignored: Vec::new() }
            .read(path, text)
            .map_err(|e| e.with("file", path.display()))
    }

    /// The file's folder, where relative paths start.
    pub fn folder(&self) -> PathBuf {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        }
    }

    /// The folder of this pipeline's checkpoints.
    pub fn state_dir(&self) -> PathBuf {
        match &self.pipeline.state_dir {
            Some(dir) => self.folder().join(dir.strip_prefix("file://").unwrap_or(dir)),
            None => self.folder().join("lakeward-state").join(file_name(&self.pipeline.name)),
        }
    }
}

/// A pipeline's name as a folder's name: unlike characters become `_`.
fn file_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

struct Reader<'a> {
    references: &'a dyn References,
    used: Use,
    ignored: Vec<String>,
}

impl Reader<'_> {
    fn read(mut self, path: &Path, text: &str) -> Result<PipelineFile> {
        let root = yaml::parse(text)?;
        let Value::Map(entries) = root.value else {
            let message = format!("a pipeline file is a mapping, this is {}", root.value.kind());
            return Err(at(root.line, message));
        };
        let mut sections: [Option<Entry>; 5] = Default::default();
        for entry in entries {
            match TOP_LEVEL.iter().position(|known| *known == entry.key) {
                Some(i) => sections[i] = Some(entry),
                None => return Err(at(entry.line, unknown_section(&entry.key))),
            }
        }
        let [source, sink, route, transform, pipeline] = sections;
        let source = self.endpoint("source", source)?;
        let (sinks, schema_changes) = self.sinks(sink)?;
        let rules = route.map(|entry| self.rules(entry.value)).transpose()?.unwrap_or_default();
        if let Some(transform) = transform {
            refuse_transform(&transform)?;
        }
        let pipeline = self.pipeline(pipeline)?;
        let routes = Routes::new(rules, pipeline.route_mode.into())?;
        let path = path.to_path_buf();
        let ignored = self.ignored;
        Ok(PipelineFile { path, source, sinks, schema_changes, routes, pipeline, ignored })
    }

    fn endpoint(&self, section: &'static str, entry: Option<Entry>) -> Result<Endpoint> {
        let Some(entry) = entry else {
            return Err(Error::config(format!("the pipeline file has no `{section}` section")));
        };
        let references = match (self.used, section) {
            (Use::All, _) | (Use::Sink, "sink") => self.references,
            _ => &NoReferences,
        };
        let mut options = Section::read(section, entry.line, entry.value, references)?;
        let name = options.take_text("name")?;
        let line = options.get("type").map_or(entry.line, |e| e.line);
        let connector = options.take_text("type")?;
        let connector = connector
            .ok_or_else(|| at(entry.line, format!("`{section}` needs the option `type`")))?;
        let name = name.unwrap_or_else(|| connector.clone());
        Ok(Endpoint { name, connector, line, options })
    }

    /// One sink, or a list of them; and the kinds of schema changes for all.
    fn sinks(&self, entry: Option<Entry>) -> Result<(Vec<Endpoint>, SchemaChangeLists)> {
        let entries = match entry {
            Some(Entry { key, line, value: Node { value: Value::List(sinks), .. } }) => {
                if sinks.is_empty() {
                    return Err(at(line, "`sink` is an empty list"));
                }
                let entry = |value: Node| Entry { key: key.clone(), line: value.line, value };
                sinks.into_iter().map(|value| Some(entry(value))).collect()
            }
            one => vec![one],
        };
        let mut sinks: Vec<Endpoint> = Vec::new();
        let mut changes = None;
        for entry in entries {
            let mut sink = self.endpoint("sink", entry)?;
            let its = schema_changes(&mut sink.options)?;
            if changes.get_or_insert_with(|| its.clone()) != &its {
                return Err(at(
                    sink.line,
                    "`include.schema.changes` and `exclude.schema.changes` must be the same for all sinks",
                ));
            }
            if sinks.iter().any(|other| other.name == sink.name) {
                let name = &sink.name;
                let message = format!("two sinks are called `{name}`; give them different `name`s");
                return Err(at(sink.line, message));
            }
            sinks.push(sink);
        }
        Ok((sinks, changes.unwrap_or_default()))
    }

    fn rules(&self, node: Node) -> Result<Vec<RouteRule>> {
        match node.value {
            Value::List(rules) => rules.into_iter().map(|rule| self.rule(rule)).collect(),
            Value::Null => Ok(Vec::new()),
            other => {
                let message = format!("`route` must be a list, this is {}", other.kind());
                Err(at(node.line, message))
            }
        }
    }

    fn rule(&self, node: Node) -> Result<RouteRule> {
        const KNOWN: [&str; 5] =
            ["source-table", "sink-table", "replace-symbol", "shard-key", "description"];
        let line = node.line;
        let mut options = Section::read("route", line, node, self.references)?;
        let mut needed = |key: &str| {
            let value = options.take_text(key)?;
            value.ok_or_else(|| at(line, format!("a route needs the option `{key}`")))
        };
        let (source_table, sink_table) = (needed("source-table")?, needed("sink-table")?);
        let replace_symbol = options.take_text("replace-symbol")?;
        let shard_key = match options.take_text("shard-key")?.as_deref() {
            None => ShardKey::Unspecified,
            Some("none") => ShardKey::None,
            Some("source-table") => ShardKey::SourceTable,
            Some(_) => return Err(at(line, "`shard-key` must be one of none, source-table")),
        };
        options.take("description");
        if let Some(left) = options.entries.first() {
            let message = format!("a route has no option `{}`{}", left.key, hint(&left.key, KNOWN));
            return Err(at(left.line, message));
        }
        let rule = RouteRule { source_table, sink_table, replace_symbol, shard_key };
        // Each rule on its own, so that a wrong pattern is reported with its line.
        Routes::new(vec![rule.clone()], Default::default()).map_err(|e| e.with("line", line))?;
        Ok(rule)
    }

    fn pipeline(&mut self, entry: Option<Entry>) -> Result<PipelineConfig> {
        let Entry { line, mut value, .. } = entry.unwrap_or(Entry {
            key: "pipeline".to_string(),
            line: 1,
            value: Node { line: 1, value: Value::Null },
        });
        if let Value::Map(entries) = &mut value.value {
            // Lists of mappings, which only a transform would call.
            entries.retain(|e| {
                let unused = ["user-defined-function", "model"].contains(&e.key.as_str());
                if unused {
                    self.ignored.push(format!("pipeline: {}", e.key));
                }
                !unused
            });
        }
        let section = Section::read("pipeline", line, value, self.references)?;
        let name_line = section.get("name").map_or(line, |e| e.line);
        let config: PipelineConfig =
            read_section(section, pipeline::WITHOUT_EFFECT, &mut self.ignored)?;
        if config.name.trim().is_empty() {
            return Err(at(name_line, "`name` must not be empty"));
        }
        if config.parallelism == 0 {
            return Err(at(line, "`parallelism` must be at least 1"));
        }
        if config.checkpoint_interval.as_millis() == 0 {
            return Err(at(line, "`checkpoint.interval` must be more than nothing"));
        }
        Ok(config)
    }
}

fn unknown_section(key: &str) -> String {
    let hint = match nearest(key, TOP_LEVEL) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; its sections are {}", TOP_LEVEL.join(", ")),
    };
    format!("a pipeline file has no section `{key}`{hint}")
}

/// The end of a message about an unknown name.
fn hint<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

fn refuse_transform(entry: &Entry) -> Result<()> {
    match &entry.value.value {
        Value::Null => Ok(()),
        Value::List(rules) if rules.is_empty() => Ok(()),
        _ => Err(at(
            entry.line,
            "`transform` is not supported yet; take the section out to copy the tables as they are",
        )),
    }
}

/// The kinds of changes as `include.schema.changes` and `exclude.schema.changes` name them: whole, or by a part.
const CHANGE_KINDS: [&str; 14] = [
    "add.column",
    "alter.column.nullable",
    "alter.column.type",
    "alter.primary.key",
    "comment.column",
    "comment.table",
    "create.table",
    "drop.column",
    "drop.table",
    "move.column",
    "rename.column",
    "rename.table",
    "reset.table",
    "truncate.table",
];

fn schema_changes(options: &mut Section) -> Result<SchemaChangeLists> {
    let mut list = |key: &str| -> Result<Vec<String>> {
        let Some(entry) = options.take(key) else { return Ok(Vec::new()) };
        let kinds: Vec<String> = match entry.value {
            OptionValue::Null => Vec::new(),
            OptionValue::Text(text) => text.split(',').map(|k| k.trim().to_string()).collect(),
            OptionValue::List(kinds) => kinds,
        };
        let known = |kind: &str| CHANGE_KINDS.iter().any(|k| has_words(k, kind));
        match kinds.iter().find(|kind| !known(kind)) {
            None => Ok(kinds),
            Some(wrong) => {
                let hint = hint(wrong, CHANGE_KINDS);
                let message = format!("`{key}` names no kind of schema change: `{wrong}`{hint}");
                Err(at(entry.line, message))
            }
        }
    };
    let include = list("include.schema.changes")?;
    Ok(SchemaChangeLists { include, exclude: list("exclude.schema.changes")? })
}

/// True where `part` is whole words of the kind: `column` and `drop` are both of `drop.column`.
fn has_words(kind: &str, part: &str) -> bool {
    !part.is_empty() && format!(".{kind}.").contains(&format!(".{part}."))
}

#[cfg(test)]
mod tests;
