//! A section's options to the config struct of a connector or of the pipeline, with errors that say what was expected, and
//! on which line.

use std::cell::Cell;

use lakeward_core::Result;
use schemars::JsonSchema;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde_json::{Map, Value as Json};

use super::options::{Form, OptionSpec, nearest, options_of};
use super::section::{OptionEntry, OptionValue, Section};
use super::yaml::at;

/// Options that a user may bring along though nothing here reads them. `*` at the end stands for any rest.
pub type WithoutEffect<'a> = &'a [&'a str];

/// Reads a section as `T`. Options named by `without_effect` are put into `ignored`.
///
/// # Errors
/// `Config` for an unknown option (with the nearest known name), a missing one, or a value of the wrong form.
pub fn read_section<T: DeserializeOwned + JsonSchema>(
    section: Section,
    without_effect: WithoutEffect<'_>,
    ignored: &mut Vec<String>,
) -> Result<T> {
    let options = options_of::<T>();
    let name = section.name;
    let mut values: Vec<(String, Json, usize, bool)> = Vec::new();
    for entry in section.entries {
        match place_of(&entry.key, &options) {
            Some((spec, None)) => {
                let json = json_of(&entry, &spec.form)?;
                values.push((spec.key.clone(), json, entry.line, entry.secret));
            }
            Some((spec, Some(below))) => {
                let json = json_of(&entry, &Form::Text)?;
                match values.iter_mut().find(|(key, ..)| *key == spec.key) {
                    Some((_, Json::Object(map), _, secret)) => {
                        map.insert(below.to_string(), json);
                        *secret |= entry.secret;
                    }
                    _ => {
                        let map = Map::from_iter([(below.to_string(), json)]);
                        values.push((spec.key.clone(), map.into(), entry.line, entry.secret));
                    }
                }
            }
            None if has_no_effect(&entry.key, without_effect) => {
                ignored.push(format!("{name}: {}", entry.key));
            }
            None => {
                let message = unknown(&entry.key, name, &options, without_effect);
                return Err(at(entry.line, message));
            }
        }
    }
    if let Some(missing) =
        options.iter().find(|o| o.required && !values.iter().any(|(key, ..)| *key == o.key))
    {
        return Err(at(section.line, format!("`{name}` needs the option `{}`", missing.key)));
    }
    // Serde reports an error while it reads a value, so the last key handed out is the one at fault.
    let reading = Cell::new(None);
    let pairs = values.iter().enumerate().map(|(i, (key, json, ..))| {
        reading.set(Some(i));
        (key.as_str(), json.clone().into_deserializer())
    });
    T::deserialize(MapDeserializer::new(pairs)).map_err(|e: serde_json::Error| {
        match reading.get().map(|i| &values[i]) {
            Some((key, _, line, true)) => {
                at(*line, format!("`{key}` has a value that is not valid"))
            }
            Some((key, _, line, false)) => at(*line, format!("`{key}` is not valid: {e}")),
            None => at(section.line, format!("`{name}` is not valid: {e}")),
        }
    })
}

/// The option that a key belongs to, and for a prefix option the rest of the key.
fn place_of<'a, 'k>(
    key: &'k str,
    options: &'a [OptionSpec],
) -> Option<(&'a OptionSpec, Option<&'k str>)> {
    if let Some(spec) = options.iter().find(|o| o.key == key && o.form != Form::Prefix) {
        return Some((spec, None));
    }
    options
        .iter()
        .filter(|o| o.form == Form::Prefix)
        .filter_map(|o| {
            let below = key.strip_prefix(o.key.as_str())?.strip_prefix('.')?;
            (!below.is_empty()).then_some((o, Some(below)))
        })
        .max_by_key(|(o, _)| o.key.len())
}

fn has_no_effect(key: &str, without_effect: WithoutEffect<'_>) -> bool {
    without_effect.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == *pattern,
    })
}

fn unknown(
    key: &str,
    section: &str,
    options: &[OptionSpec],
    without_effect: WithoutEffect<'_>,
) -> String {
    let known = options.iter().map(|o| o.key.as_str());
    let known = known.chain(without_effect.iter().filter(|k| !k.ends_with('*')).copied());
    match nearest(key, known) {
        Some(near) => format!("`{section}` has no option `{key}`; did you mean `{near}`?"),
        None => format!("`{section}` has no option `{key}`"),
    }
}

fn json_of(entry: &OptionEntry, form: &Form) -> Result<Json> {
    let wrong = || at(entry.line, format!("`{}` must be {}", entry.key, form.expected()));
    let text = match (&entry.value, form) {
        (OptionValue::Text(text), Form::List) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            return Ok(items.map(|item| Json::from(item.to_string())).collect());
        }
        (OptionValue::List(items), Form::List) => {
            return Ok(items.iter().map(|item| Json::from(item.clone())).collect());
        }
        // Flink CDC writes lists as one text with commas.
        (OptionValue::List(items), Form::Text) => return Ok(Json::from(items.join(","))),
        (OptionValue::Null, Form::Text) => return Ok(Json::from("")),
        (OptionValue::Text(text), _) => text.trim(),
        (OptionValue::List(_) | OptionValue::Null, _) => return Err(wrong()),
    };
    match form {
        Form::Integer => {
            let number = text.parse::<i64>().map(Json::from);
            number.or_else(|_| text.parse::<u64>().map(Json::from)).map_err(|_| wrong())
        }
        Form::Number => text.parse::<f64>().map(Json::from).map_err(|_| wrong()),
        Form::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ => Err(wrong()),
        },
        Form::Choice(words) => {
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
            word.map(|word| Json::from(word.as_str())).ok_or_else(wrong)
        }
        // A password may begin or end with a blank.
        _ => match &entry.value {
            OptionValue::Text(text) => Ok(Json::from(text.as_str())),
            _ => Err(wrong()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::{Example, Mode};
    use super::super::section::tests::Fake;
    use super::super::yaml::parse;
    use super::*;

    fn read(text: &str) -> Result<(Example, Vec<String>)> {
        let section = Section::read("source", 1, parse(text)?, &Fake)?;
        let mut ignored = Vec::new();
        let config = read_section(section, &["debezium.*", "scan.old.option"], &mut ignored)?;
        Ok((config, ignored))
    }

    fn error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn values_take_their_options_form() {
        let text = "hostname: 10\nport: '3307'\nconnect.timeout: 30s\nmemory: 1gb\nmode: LATEST-OFFSET\nflag: True\n\
                    names: a, b\ntable.properties.write.x: 5\ntable: {properties: {y: z}}\ndebezium.max.q: 1\n\
                    scan: {old: {option: 1}}\npassword: ' p '\n";
        let (config, ignored) = read(text).unwrap();
        assert_eq!((config.hostname.as_str(), config.port), ("10", 3307));
        assert_eq!(config.connect_timeout.unwrap().as_millis(), 30_000);
        assert_eq!(config.memory.unwrap().0, 1 << 30);
        assert_eq!((config.mode, config.flag), (Mode::LatestOffset, true));
        assert_eq!(config.names, ["a", "b"]);
        assert_eq!(config.password.as_deref(), Some(" p "));
        assert_eq!(config.table_properties["write.x"], "5");
        assert_eq!(config.table_properties["y"], "z");
        assert_eq!(ignored, ["source: debezium.max.q", "source: scan.old.option"]);
    }

    #[test]
    fn errors_name_the_option_what_it_takes_and_the_line() {
        assert_eq!(
            error("hostname: h\nprot: 1\n"),
            "`source` has no option `prot`; did you mean `port`? (line 2)"
        );
        assert_eq!(error("port: 1\n"), "`source` needs the option `hostname` (line 1)");
        assert_eq!(error("hostname: h\n\nport: many\n"), "`port` must be a whole number (line 3)");
        assert!(error("hostname: h\nport: 70000\n").contains("`port` is not valid"));
        assert_eq!(
            error("hostname: h\nmode: later\n"),
            "`mode` must be one of latest-offset, initial (line 2)"
        );
        assert!(error("hostname: h\nconnect.timeout: soon\n").contains("duration such as"));
        assert_eq!(error("hostname: h\nflag: 2\n"), "`flag` must be true or false (line 2)");
    }

    #[test]
    fn a_wrong_value_by_reference_is_not_shown() {
        let e = error("hostname: h\nmemory: ${env:PW}\n");
        assert!(!e.contains("s3cret") && e.contains("`memory`"), "{e}");
    }
}
