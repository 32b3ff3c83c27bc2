//! The options that a config struct knows, read from its JSON schema: names, forms, defaults and doc comments. Checks of a
//! pipeline file and the reference page both stand on it.

use schemars::JsonSchema;
use serde_json::Value as Json;

/// What an option's value may look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Integer,
    Number,
    Boolean,
    Text,
    Duration,
    Size,
    /// One of these words.
    Choice(Vec<String>),
    List,
    /// Any keys below this one: `table.properties.*`.
    Prefix,
}

impl Form {
    /// The word of the reference page.
    pub fn word(&self) -> &'static str {
        match self {
            Form::Integer => "integer",
            Form::Number => "number",
            Form::Boolean => "boolean",
            Form::Text => "string",
            Form::Duration => "duration",
            Form::Size => "size",
            Form::Choice(_) => "choice",
            Form::List => "list",
            Form::Prefix => "any keys",
        }
    }

    /// What was expected, for a message.
    pub fn expected(&self) -> String {
        match self {
            Form::Integer => "a whole number".to_string(),
            Form::Number => "a number".to_string(),
            Form::Boolean => "true or false".to_string(),
            Form::Text => "a single value".to_string(),
            Form::Duration => "a duration such as 10s or 3 min".to_string(),
            Form::Size => "a size such as 256mb".to_string(),
            Form::Choice(words) => format!("one of {}", words.join(", ")),
            Form::List => "a list".to_string(),
            Form::Prefix => "a mapping".to_string(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct OptionSpec {
    pub key: String,
    pub form: Form,
    pub required: bool,
    pub default: Option<Json>,
    pub description: String,
}

/// All options of a config struct, in the order of their names.
pub fn options_of<T: JsonSchema>() -> Vec<OptionSpec> {
    let schema = schemars::schema_for!(T).to_value();
    let empty = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    let mut options: Vec<OptionSpec> = properties
        .iter()
        .map(|(key, property)| OptionSpec {
            key: key.clone(),
            form: form_of(property, &schema),
            required: required.contains(&key.as_str()),
            default: property.get("default").filter(|d| !d.is_null()).cloned(),
            description: property["description"].as_str().unwrap_or_default().to_string(),
        })
        .collect();
    options.sort_by(|a, b| a.key.cmp(&b.key));
    options
}

fn form_of(property: &Json, root: &Json) -> Form {
    if let Some(reference) = property["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return form_of(&root["$defs"][name], root);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        let Some(schemas) = property[several].as_array() else { continue };
        let others: Vec<&Json> = schemas.iter().filter(|s| s["type"] != "null").collect();
        let words: Option<Vec<Vec<String>>> = others.iter().map(|s| words_of(s)).collect();
        if let Some(words) = words.filter(|w| w.len() > 1) {
            return Form::Choice(words.into_iter().flatten().collect());
        }
        if let Some(first) = others.first() {
            return form_of(first, root);
        }
    }
    if let Some(words) = words_of(property) {
        return Form::Choice(words);
    }
    let type_name = match &property["type"] {
        Json::String(name) => Some(name.as_str()),
        Json::Array(names) => names.iter().filter_map(Json::as_str).find(|n| *n != "null"),
        _ => None,
    };
    match (type_name, property["format"].as_str()) {
        (Some("string"), Some("duration")) => Form::Duration,
        (Some("string"), Some("size")) => Form::Size,
        (Some("integer"), _) => Form::Integer,
        (Some("number"), _) => Form::Number,
        (Some("boolean"), _) => Form::Boolean,
        (Some("array"), _) => Form::List,
        (Some("object"), _) => Form::Prefix,
        _ => Form::Text,
    }
}

/// The words that a schema of an enum, or of some of its variants, allows.
fn words_of(schema: &Json) -> Option<Vec<String>> {
    if let Some(word) = schema["const"].as_str() {
        return Some(vec![word.to_string()]);
    }
    let words = schema["enum"].as_array()?;
    Some(words.iter().filter_map(Json::as_str).map(String::from).collect())
}

/// The known name nearest to a wrong one, when one is near enough to be meant.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = wrong.to_ascii_lowercase().replace(['_', '-'], ".");
    known
        .into_iter()
        .map(|name| {
            let other = name.to_ascii_lowercase().replace(['_', '-'], ".");
            (strsim::damerau_levenshtein(&folded, &other), name)
        })
        .filter(|(distance, name)| *distance <= 2.max(wrong.len().max(name.len()) / 3))
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use lakeward_core::options::Interval;

    use crate::pipeline_file::value::ByteSize;

    /// The example server.
    #[derive(Debug, serde::Deserialize, JsonSchema, PartialEq)]
    #[serde(deny_unknown_fields)]
    pub struct Example {
        /// The host to connect to.
        pub hostname: String,
        #[serde(default = "port")]
        pub port: u16,
        #[serde(rename = "connect.timeout", default)]
        pub connect_timeout: Option<Interval>,
        #[serde(default)]
        pub memory: Option<ByteSize>,
        #[serde(default)]
        pub mode: Mode,
        #[serde(default)]
        pub flag: bool,
        #[serde(default)]
        pub names: Vec<String>,
        #[serde(rename = "table.properties", default)]
        pub table_properties: BTreeMap<String, String>,
        #[serde(default)]
        pub password: Option<String>,
    }

    #[derive(Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    pub enum Mode {
        /// Rows, then the log.
        #[default]
        Initial,
        LatestOffset,
    }

    fn port() -> u16 {
        3306
    }

    #[test]
    fn a_struct_tells_its_options() {
        let options = options_of::<Example>();
        let form = |key: &str| options.iter().find(|o| o.key == key).unwrap().form.clone();
        assert_eq!(form("hostname"), Form::Text);
        assert_eq!(form("port"), Form::Integer);
        assert_eq!(form("connect.timeout"), Form::Duration);
        assert_eq!(form("memory"), Form::Size);
        assert_eq!(form("mode"), Form::Choice(vec!["latest-offset".into(), "initial".into()]));
        assert_eq!(form("flag"), Form::Boolean);
        assert_eq!(form("names"), Form::List);
        assert_eq!(form("table.properties"), Form::Prefix);
        let hostname = options.iter().find(|o| o.key == "hostname").unwrap();
        assert!(hostname.required && hostname.description == "The host to connect to.");
        let port = options.iter().find(|o| o.key == "port").unwrap();
        assert!(!port.required && port.default == Some(Json::from(3306)));
    }

    #[test]
    fn nearest_finds_what_was_meant() {
        let known = ["hostname", "port", "server-time-zone", "scan.startup.mode"];
        assert_eq!(nearest("hostnam", known), Some("hostname"));
        assert_eq!(nearest("host_name", known), Some("hostname"));
        assert_eq!(nearest("server.time_zone", known), Some("server-time-zone"));
        assert_eq!(nearest("scan.startup-mode", known), Some("scan.startup.mode"));
        assert_eq!(nearest("warehouse", known), None);
    }
}
