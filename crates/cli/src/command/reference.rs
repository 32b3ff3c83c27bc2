//! `lakeward reference`: the option reference as Markdown, made from the config structs.

use std::fmt::Write;

use lakeward_pipeline::pipeline_file::PipelineConfig;
use lakeward_pipeline::pipeline_file::options::{Form, OptionSpec, options_of};
use lakeward_pipeline::registry::{Kind, SINKS, SOURCES};

pub fn markdown() -> String {
    let mut out = String::from(
        "# Options\n\nMade from the program itself (`lakeward reference`). How the file is written is in \
         [the pipeline file](pipeline-file.md).\n",
    );
    for (what, kinds) in [("source", SOURCES), ("sink", SINKS)] {
        for Kind { name, options, .. } in kinds {
            let _ = write!(out, "\n## `{what}`: {name}\n\n");
            let options =
                options().into_iter().filter(|o| !["type", "name"].contains(&o.key.as_str()));
            table(options, &mut out);
        }
    }
    out.push_str("\n## `pipeline`\n\n");
    table(options_of::<PipelineConfig>(), &mut out);
    out
}

/// Required options first.
fn table(options: impl IntoIterator<Item = OptionSpec>, out: &mut String) {
    out.push_str("| option | type | default | meaning |\n|---|---|---|---|\n");
    let mut options: Vec<OptionSpec> = options.into_iter().collect();
    options.sort_by_key(|o| !o.required);
    for option in options {
        let key = match option.form {
            Form::Prefix => format!("{}.*", option.key),
            _ => option.key.clone(),
        };
        let default = match &option.default {
            _ if option.required => "required".to_string(),
            Some(serde_json::Value::String(text)) if text.is_empty() => String::new(),
            Some(serde_json::Value::String(text)) => format!("`{text}`"),
            Some(value) if value.is_number() || value.is_boolean() => format!("`{value}`"),
            _ => String::new(),
        };
        let word = match &option.form {
            Form::Choice(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            form => form.word().to_string(),
        };
        let meaning = option.description.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(out, "| `{key}` | {word} | {default} | {meaning} |");
    }
}
