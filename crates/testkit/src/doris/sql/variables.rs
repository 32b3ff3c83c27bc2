//! Session variables, and what client libraries ask about before they do anything.

use super::lexer::{Token, Tokens};
use super::{
    Answer, DONE, Kind, MYSQL_VERSION, ResultColumn, ResultSet, Session, SqlError, VERSION,
};

/// Values that a session begins with.
const DEFAULTS: &[(&str, &str)] = &[
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_0900_bin"),
    ("collation_server", "utf8mb4_0900_bin"),
    ("enable_insert_strict", "true"),
    ("init_connect", ""),
    ("interactive_timeout", "3600"),
    ("license", "Apache License, Version 2.0"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "16777216"),
    ("net_write_timeout", "600"),
    ("performance_schema", "false"),
    ("query_cache_size", "1048576"),
    ("query_cache_type", "0"),
    ("query_timeout", "900"),
    ("socket", ""),
    ("sql_mode", "ONLY_FULL_GROUP_BY"),
    ("sql_select_limit", "9223372036854775807"),
    ("system_time_zone", "Asia/Shanghai"),
    ("time_zone", "Asia/Shanghai"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "false"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "false"),
    ("version", MYSQL_VERSION),
    ("version_comment", VERSION),
    ("wait_timeout", "28800"),
];

/// The value of a variable, if there is one of that name.
pub fn get(session: &Session, name: &str) -> Option<String> {
    let name = plain(name);
    if let Some(value) = session.variables.get(&name) {
        return Some(value.clone());
    }
    DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// Without `@@` and scope, in lower case.
fn plain(name: &str) -> String {
    let name = name.trim_start_matches('@').to_ascii_lowercase();
    let scoped = ["session.", "global.", "local."].iter().find_map(|s| name.strip_prefix(s));
    scoped.map(str::to_owned).unwrap_or(name)
}

pub fn set(session: &mut Session, tokens: &mut Tokens) -> Result<Answer, SqlError> {
    tokens.expect("set")?;
    if tokens.accept("names") || tokens.accept("character set") || tokens.accept("charset") {
        tokens.next();
        if tokens.accept("collate") {
            tokens.next();
        }
        tokens.end()?;
        return Ok(DONE);
    }
    loop {
        for scope in ["session", "global", "local"] {
            tokens.accept(scope);
        }
        if tokens.accept("transaction") {
            return Ok(DONE);
        }
        let mut name = tokens.name()?;
        while tokens.accept_sign('.') {
            name = tokens.name()?;
        }
        tokens.accept_sign(':');
        tokens.expect_sign('=')?;
        let value = value(session, tokens)?;
        let user_variable = name.starts_with('@') && !name.starts_with("@@");
        let name = plain(&name);
        if !user_variable && get(session, &name).is_none() && !is_of_doris(&name) {
            return Err(SqlError::new(1193, format!("Unknown system variable '{name}'")));
        }
        if name == "enable_insert_strict" && value != "true" && value != "1" {
            return Err(SqlError::refused("the stand-in knows only strict inserts"));
        }
        session.variables.insert(name, value);
        if !tokens.accept_sign(',') {
            break;
        }
    }
    tokens.end()?;
    Ok(DONE)
}

/// Variables that may be set and change nothing here.
fn is_of_doris(name: &str) -> bool {
    const KNOWN: &[&str] = &[
        "batch_size",
        "enable_fallback_to_original_planner",
        "enable_nereids_dml",
        "enable_nereids_planner",
        "enable_sql_cache",
        "enable_unique_key_partial_update",
        "exec_mem_limit",
        "group_commit",
        "insert_timeout",
        "parallel_pipeline_task_num",
        "query_timeout",
        "require_sequence_in_insert",
        "show_hidden_columns",
    ];
    KNOWN.contains(&name)
}

fn value(session: &Session, tokens: &mut Tokens) -> Result<String, SqlError> {
    let minus = if tokens.accept_sign('-') { "-" } else { "" };
    Ok(match tokens.next() {
        Some(Token::Text(text)) => text,
        Some(Token::Number(number)) => format!("{minus}{number}"),
        Some(Token::Word(word)) if word.starts_with("@@") => {
            get(session, &word).unwrap_or_default()
        }
        Some(Token::Word(word)) if word.eq_ignore_ascii_case("on") => "1".to_owned(),
        Some(Token::Word(word)) if word.eq_ignore_ascii_case("off") => "0".to_owned(),
        Some(Token::Word(word) | Token::Name(word)) => {
            if tokens.peek() == Some(&Token::Sign('(')) {
                tokens.parenthesized()?;
            }
            word
        }
        _ => return Err(tokens.unexpected("a value")),
    })
}

/// SHOW VARIABLES [LIKE …].
pub fn show(session: &Session, like: impl Fn(&str) -> bool) -> ResultSet {
    let columns = ["Variable_name", "Value"]
        .map(|name| ResultColumn { name: name.to_owned(), kind: Kind::Text });
    let mut result = ResultSet { columns: columns.to_vec(), rows: Vec::new() };
    for (name, _) in DEFAULTS.iter().filter(|(name, _)| like(name)) {
        result.push([(*name).to_owned(), get(session, name).unwrap_or_default()]);
    }
    result
}

/// A SELECT with variables and session functions replaced by their values. A value that stands for a whole item of the
/// list keeps the name of what it replaces.
pub fn substitute(session: &Session, tokens: &Tokens) -> Result<String, SqlError> {
    let all = tokens.all();
    let source = tokens.source();
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while at < all.len() {
        let (token, from, _) = &all[at];
        let mut last = at;
        let replaced = match token {
            Token::Word(word) if word.starts_with("@@") => {
                // `@@session.name` is three tokens.
                if let (Some((Token::Sign('.'), ..)), Some((Token::Word(_), ..))) =
                    (all.get(at + 1), all.get(at + 2))
                {
                    last = at + 2;
                }
                let name = &source[*from..all[last].2];
                let value = get(session, name).ok_or_else(|| {
                    SqlError::new(1193, format!("Unknown system variable '{}'", plain(name)))
                })?;
                let numeric = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                Some(if numeric { value } else { format!("'{}'", value.replace('\'', "''")) })
            }
            Token::Word(word) if is_call(all, at) => {
                let value = function(session, word);
                if value.is_some() {
                    last = at + 2;
                }
                value
            }
            _ => None,
        };
        if let Some(value) = replaced {
            out.push_str(&source[copied..*from]);
            out.push_str(&value);
            copied = all[last].2;
            let before = at.checked_sub(1).map(|before| &all[before].0);
            let begins = matches!(before, Some(Token::Word(w)) if w.eq_ignore_ascii_case("select"))
                || before == Some(&Token::Sign(','));
            let ends = match all.get(last + 1).map(|(token, ..)| token) {
                None | Some(Token::Sign(',' | ';')) => true,
                Some(Token::Word(w)) => ["from", "limit"].iter().any(|k| w.eq_ignore_ascii_case(k)),
                _ => false,
            };
            if begins && ends {
                out.push_str(&format!(" AS `{}`", &source[*from..copied]));
            }
        }
        at = last + 1;
    }
    out.push_str(&source[copied..]);
    Ok(out)
}

fn is_call(all: &[(Token, usize, usize)], at: usize) -> bool {
    matches!(
        (all.get(at + 1), all.get(at + 2)),
        (Some((Token::Sign('('), ..)), Some((Token::Sign(')'), ..)))
    )
}

fn function(session: &Session, name: &str) -> Option<String> {
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    Some(match name.to_ascii_lowercase().as_str() {
        "version" => text(MYSQL_VERSION),
        "database" | "schema" => match &session.database {
            Some(database) => text(database),
            None => "NULL".to_owned(),
        },
        "user" | "current_user" | "session_user" => text(&format!("{}@127.0.0.1", session.user)),
        "connection_id" => session.connection_id.to_string(),
        "current_catalog" => text("internal"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substituted(sql: &str) -> String {
        let mut session = Session::new("root".into());
        session.database = Some("d".into());
        substitute(&session, &Tokens::read(sql).unwrap()).unwrap()
    }

    #[test]
    fn variables_and_functions_become_values() {
        assert_eq!(
            substituted("SELECT @@max_allowed_packet, @@session.tx_isolation AS x, version()"),
            "SELECT 16777216 AS `@@max_allowed_packet`, 'REPEATABLE-READ' AS x, '5.7.99' AS `version()`"
        );
        assert_eq!(substituted("select 1 where database() = 'd'"), "select 1 where 'd' = 'd'");
        assert_eq!(substituted("select count(*) from t"), "select count(*) from t");
    }
}
