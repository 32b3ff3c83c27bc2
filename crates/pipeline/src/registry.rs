//! The one place that names connectors.

use std::sync::Arc;

use lakeward_core::{Error, Result, Sink, Source};
use lakeward_operators::sink_list::SinkList;

use crate::pipeline_file::options::{OptionSpec, nearest, options_of};
use crate::pipeline_file::pipeline::{BadRecordOption, PipelineConfig};
use crate::pipeline_file::typed::{WithoutEffect, read_section};
use crate::pipeline_file::{Endpoint, PipelineFile};

/// A kind of source or sink, as the commands need to know it.
pub struct Kind {
    /// As `type` names it.
    pub name: &'static str,
    /// Its section of a new pipeline file.
    pub template: &'static str,
    pub options: fn() -> Vec<OptionSpec>,
}

pub const SOURCES: &[Kind] = &[
    #[cfg(feature = "mysql")]
    Kind {
        name: "mysql",
        template: include_str!("../templates/source-mysql.yaml"),
        options: options_of::<lakeward_mysql::config::MysqlConfig>,
    },
    #[cfg(feature = "kafka")]
    Kind {
        name: "kafka",
        template: include_str!("../templates/source-kafka.yaml"),
        options: options_of::<lakeward_kafka::config::KafkaConfig>,
    },
];

pub const SINKS: &[Kind] = &[
    #[cfg(feature = "iceberg")]
    Kind {
        name: "iceberg",
        template: include_str!("../templates/sink-iceberg.yaml"),
        options: options_of::<lakeward_iceberg::config::IcebergConfig>,
    },
    #[cfg(feature = "doris")]
    Kind {
        name: "doris",
        template: include_str!("../templates/sink-doris.yaml"),
        options: options_of::<lakeward_doris::config::DorisConfig>,
    },
];

/// Types that Flink CDC knows, so that asking for one is told apart from a slip of the pen.
const ELSEWHERE: [&str; 12] = [
    "postgres",
    "oracle",
    "sqlserver",
    "mongodb",
    "starrocks",
    "paimon",
    "hudi",
    "fluss",
    "elasticsearch",
    "maxcompute",
    "oceanbase",
    "values",
];

/// Both ends of a pipeline, made from its file. Nothing has been connected to yet.
pub struct Connectors {
    pub source: Arc<dyn Source>,
    pub sink: Arc<dyn Sink>,
    /// What of the source the state belongs to.
    pub source_identity: String,
    /// What of the sink the state belongs to.
    pub sink_identity: String,
    /// The source was told to end by itself once its tables are read.
    pub bounded: bool,
    pub warnings: Vec<String>,
}

impl Connectors {
    /// # Errors
    /// `Config` for a type that is not known and for options that are wrong.
    pub async fn of(file: &PipelineFile) -> Result<Self> {
        let in_file = |e: Error| e.with("file", file.path.display());
        let mut ignored = file.ignored.clone();
        let mut warnings = Vec::new();
        let source = source(&file.source, &file.pipeline, &mut ignored).map_err(in_file)?;
        let mut sinks = Vec::new();
        for endpoint in &file.sinks {
            let made = sink(endpoint, &mut ignored, &mut warnings).await.map_err(in_file)?;
            sinks.push((endpoint.name.clone(), made));
        }
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            warnings.insert(0, format!("these options have no effect here: {ignored}"));
        }
        Ok(Self {
            sink_identity: identity_of(&sinks),
            sink: one_of(sinks, &source.source)?,
            source: source.source,
            source_identity: source.identity,
            bounded: source.bounded,
            warnings,
        })
    }
}

type NamedSink = (String, (Arc<dyn Sink>, String));

fn identity_of(sinks: &[NamedSink]) -> String {
    let identities: Vec<&str> = sinks.iter().map(|(_, (_, identity))| identity.as_str()).collect();
    identities.join(" and ")
}

/// The only sink itself, or all of them as one.
fn one_of(sinks: Vec<NamedSink>, source: &Arc<dyn Source>) -> Result<Arc<dyn Sink>> {
    let mut sinks: Vec<(String, Arc<dyn Sink>)> =
        sinks.into_iter().map(|(name, (sink, _))| (name, sink)).collect();
    match sinks.len() {
        1 => Ok(sinks.remove(0).1),
        _ => Ok(Arc::new(SinkList::new(sinks, source.clone())?)),
    }
}

struct SourceEnd {
    source: Arc<dyn Source>,
    identity: String,
    bounded: bool,
}

fn source(
    endpoint: &Endpoint,
    pipeline: &PipelineConfig,
    ignored: &mut Vec<String>,
) -> Result<SourceEnd> {
    if endpoint.connector != "kafka" && pipeline.bad_record != BadRecordOption::Fail {
        ignored.push("pipeline: bad-record".to_string());
    }
    match endpoint.connector.as_str() {
        #[cfg(feature = "mysql")]
        "mysql" => {
            use lakeward_mysql::MysqlSource;
            use lakeward_mysql::config::StartupMode;
            let config = mysql(endpoint, ignored)?;
            ignored.extend(config.without_effect().into_iter().map(|key| format!("source: {key}")));
            let bounded = config.startup_mode == StartupMode::Snapshot;
            let source = Arc::new(MysqlSource::new(config)?);
            Ok(SourceEnd { source, identity: "mysql".to_string(), bounded })
        }
        #[cfg(feature = "kafka")]
        "kafka" => {
            use lakeward_kafka::{BadRecordPolicy, BadRecords, KafkaConfig, KafkaSource};
            let config: KafkaConfig =
                read_section(endpoint.options.clone(), KAFKA_IGNORED, ignored)?;
            ignored.extend(config.without_effect().into_iter().map(|key| format!("source: {key}")));
            let policy = match pipeline.bad_record {
                BadRecordOption::Fail => BadRecordPolicy::Fail,
                BadRecordOption::Skip => BadRecordPolicy::Skip,
                BadRecordOption::DeadLetter => BadRecordPolicy::DeadLetter,
            };
            let bad_records = BadRecords::new(policy, &pipeline.bad_record_table)?;
            let source = Arc::new(KafkaSource::new(config, bad_records)?);
            Ok(SourceEnd { source, identity: "kafka".to_string(), bounded: false })
        }
        other => Err(unknown("source", other, endpoint.line, SOURCES)),
    }
}

async fn sink(
    endpoint: &Endpoint,
    ignored: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<(Arc<dyn Sink>, String)> {
    match endpoint.connector.as_str() {
        #[cfg(feature = "iceberg")]
        "iceberg" => {
            use lakeward_iceberg::IcebergSink;
            let config = iceberg(endpoint, ignored)?;
            warnings.extend(config.warnings());
            let identity = format!("iceberg {} {}", config.catalog_name(), config.warehouse()?);
            Ok((Arc::new(IcebergSink::open(config).await?), identity))
        }
        #[cfg(feature = "doris")]
        "doris" => {
            use lakeward_doris::{DorisConfig, DorisSink};
            let config: DorisConfig = read_section(endpoint.options.clone(), &[], ignored)?;
            config.validate()?;
            warnings.extend(config.warnings());
            let identity = format!("doris {}", config.progress_database);
            Ok((Arc::new(DorisSink::new(config)?), identity))
        }
        other => Err(unknown("sink", other, endpoint.line, SINKS)),
    }
}

/// Options of Flink's Kafka connector that have nothing to act on here.
#[cfg(feature = "kafka")]
const KAFKA_IGNORED: WithoutEffect<'static> = &[
    "format",
    "key.format",
    "key.fields",
    "key.fields-prefix",
    "value.fields-include",
    "canal-json.*",
    "maxwell-json.*",
    "ogg-json.*",
    "debezium-json.timestamp-format.standard",
    "debezium-json.map-null-key.mode",
    "debezium-json.map-null-key.literal",
    "debezium-json.encode.decimal-as-plain-number",
    "value.debezium-json.*",
    "scan.bounded.mode",
];

#[cfg(feature = "mysql")]
fn mysql(
    endpoint: &Endpoint,
    ignored: &mut Vec<String>,
) -> Result<lakeward_mysql::config::MysqlConfig> {
    /// Options of Flink CDC's connector that the config struct does not have.
    const WITHOUT_EFFECT: WithoutEffect<'static> = &[
        "chunk-meta.group.size",
        "chunk-key.even-distribution.factor.lower-bound",
        "chunk-key.even-distribution.factor.upper-bound",
        "scan.incremental.snapshot.enabled",
    ];
    read_section(endpoint.options.clone(), WITHOUT_EFFECT, ignored)
}

#[cfg(feature = "iceberg")]
pub fn iceberg(
    endpoint: &Endpoint,
    ignored: &mut Vec<String>,
) -> Result<lakeward_iceberg::config::IcebergConfig> {
    /// Options of Flink CDC's connector that the config struct does not have.
    const WITHOUT_EFFECT: WithoutEffect<'static> = &["sink.compaction.parallelism"];
    let config: lakeward_iceberg::config::IcebergConfig =
        read_section(endpoint.options.clone(), WITHOUT_EFFECT, ignored)?;
    config.validate()?;
    Ok(config)
}

fn unknown(what: &str, wanted: &str, line: usize, kinds: &[Kind]) -> Error {
    let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    let message = if ELSEWHERE.contains(&wanted) {
        format!("the {what} `{wanted}` is not supported yet; supported: {}", known.join(", "))
    } else {
        let near = match wanted {
            "mariadb" if known.contains(&"mysql") => Some("mysql"),
            _ => nearest(wanted, known.iter().copied()),
        };
        match near {
            Some(near) => format!("there is no {what} `{wanted}`; did you mean `{near}`?"),
            None => format!("there is no {what} `{wanted}`; supported: {}", known.join(", ")),
        }
    };
    Error::config(message).with("line", line)
}

#[cfg(all(test, feature = "mysql", feature = "kafka", feature = "iceberg", feature = "doris"))]
mod tests {
    use super::*;
    use crate::pipeline_file::Use;
    use crate::pipeline_file::section::References;

    /// Every variable is set, and no file is there.
    struct AllSet;

    impl References for AllSet {
        fn env(&self, _: &str) -> Option<String> {
            Some("secret".to_string())
        }

        fn file(&self, _: &std::path::Path) -> std::io::Result<String> {
            Err(std::io::Error::from(std::io::ErrorKind::NotFound))
        }
    }

    #[tokio::test]
    async fn the_examples_are_understood() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().join("pipeline.yaml");
            let text = std::fs::read_to_string(&path).unwrap();
            let file = PipelineFile::parse(&path, &text, &AllSet, Use::All).unwrap();
            let (mut ignored, mut warnings) = (file.ignored.clone(), Vec::new());
            source(&file.source, &file.pipeline, &mut ignored).unwrap();
            for endpoint in &file.sinks {
                // To open an Iceberg sink is to open its catalog.
                if endpoint.connector == "iceberg" {
                    iceberg(endpoint, &mut ignored).unwrap();
                } else {
                    sink(endpoint, &mut ignored, &mut warnings).await.unwrap();
                }
            }
            assert!(ignored.is_empty(), "{}: {ignored:?} have no effect", path.display());
            seen += 1;
        }
        assert!(seen >= 3, "{seen} examples");
    }
}
