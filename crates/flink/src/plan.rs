//! What the Java side needs to know to build the job's graph. No secret is looked up for it.

use std::fmt::Write;

use lakeward_core::Result;
use lakeward_operators::stages_of;
use lakeward_pipeline::pipeline_file::pipeline::{FlinkWriterSlots, RestartStrategyOption};
use lakeward_pipeline::pipeline_file::{PipelineConfig, Use};

use crate::spec::Spec;

/// Lines of `key=value` for a request of such lines.
pub fn plan(request: &[u8]) -> Result<String> {
    let spec = Spec::parse(request)?;
    let file = spec.pipeline(Use::Pipeline)?;
    let config = &file.pipeline;
    let stages = stages_of(!file.routes.is_empty(), config.parallelism.into());
    let mut lines = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(lines, "{key}={value}");
    };
    line("name", &config.name.replace(['\n', '\r'], " "));
    line("checkpoint.interval.ms", &config.checkpoint_interval.as_millis());
    for (key, value) in restart(config) {
        line(key, &value);
    }
    let own = config.flink_writer_slots == FlinkWriterSlots::Own;
    line("writer.slots", &if own { "lakeward-writers" } else { "" });
    line("marks.dir", &config.flink_marks_dir.as_deref().unwrap_or(""));
    line("memory.bytes", &config.memory.0);
    line("stages", &stages.len());
    for (i, stage) in stages.iter().enumerate() {
        line(&format!("stage.{i}.name"), &stage.name);
        line(&format!("stage.{i}.parallelism"), &stage.parallelism);
        line(&format!("stage.{i}.memory.weight"), &stage.memory_weight);
    }
    Ok(lines)
}

fn restart(config: &PipelineConfig) -> Vec<(&'static str, String)> {
    let kind = match config.restart_strategy {
        RestartStrategyOption::ExponentialDelay => "exponential-delay",
        RestartStrategyOption::FixedDelay => "fixed-delay",
        RestartStrategyOption::None => "none",
    };
    vec![
        ("restart.type", kind.to_string()),
        ("restart.initial.ms", config.initial_backoff.as_millis().to_string()),
        ("restart.max.ms", config.max_backoff.as_millis().to_string()),
        ("restart.factor", config.backoff_multiplier.max(1.0).to_string()),
        ("restart.jitter", config.jitter_factor.clamp(0.0, 1.0).to_string()),
        ("restart.reset.ms", config.reset_backoff_threshold.as_millis().to_string()),
        ("restart.attempts", config.fixed_delay_attempts.to_string()),
        ("restart.delay.ms", config.fixed_delay.as_millis().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_plan_needs_no_secret_and_names_the_operators() {
        let text = "source: {type: mysql, password: '${env:LAKEWARD_TEST_IS_NOT_SET}'}\nsink: {type: iceberg}\n\
                    pipeline: {name: shop, parallelism: 3, checkpoint.interval: 5s}\n";
        let request = format!("pipeline={}\nfile=p.yaml\n", STANDARD.encode(text));
        let plan = plan(request.as_bytes()).unwrap();
        for expected in [
            "name=shop\n",
            "checkpoint.interval.ms=5000\n",
            "restart.type=exponential-delay\n",
            "stages=4\nstage.0.name=StreamDdlHandler\nstage.0.parallelism=1\n",
            "stage.1.name=DynamicStreamWriter\nstage.1.parallelism=3\n",
            "stage.3.name=CheckCommitSink\n",
        ] {
            assert!(plan.contains(expected), "{expected} in\n{plan}");
        }
    }
}
