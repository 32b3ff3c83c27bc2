//! Statements as servers, tools and frameworks write them, each with its expected reading (`ddl/corpus.txt`). A line is a
//! statement; the lines after it that open with `=` are what must be read from it. `LAKEWARD_BLESS=1` writes the readings
//! anew, for review in the diff.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use lakeward_core::ColumnPlace;
use lakeward_mysql::ddl::{
    AlterClause, ColumnDefinition, DeclaredDefault, Flavor, SqlMode, Statement, TableBody,
    TableDefinition, TransactionControl, read,
};
use lakeward_mysql::model::{MysqlColumn, MysqlDefault, MysqlType};

#[test]
fn every_statement_of_the_corpus_is_read_as_expected() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ddl/corpus.txt");
    let corpus = std::fs::read_to_string(&path).expect("the corpus is beside the test");
    let mut flavor = Flavor::MySql;
    let mut fresh = String::new();
    for line in corpus.lines().filter(|line| !line.starts_with('=')) {
        writeln!(fresh, "{line}").expect("to memory");
        match line {
            "# flavor: mariadb" => flavor = Flavor::MariaDb,
            "# flavor: mysql" => flavor = Flavor::MySql,
            _ if line.starts_with('#') || line.is_empty() => {}
            statement => {
                let sql = statement.replace("\\n", "\n");
                let mode = SqlMode::new(flavor);
                for reading in read(&sql, &mode, Some("d")).expect("readable") {
                    writeln!(fresh, "= {}", describe(&reading, &mode)).expect("to memory");
                }
            }
        }
    }
    if std::env::var_os("LAKEWARD_BLESS").is_some() {
        std::fs::write(&path, fresh).expect("the corpus is writable");
        return;
    }
    for (expected, read) in corpus.lines().zip(fresh.lines()) {
        assert_eq!(read, expected);
    }
    assert_eq!(fresh.lines().count(), corpus.lines().count());
}

fn describe(statement: &Statement, mode: &SqlMode) -> String {
    match statement {
        Statement::CreateTable(create) => {
            let flags = [
                (create.or_replace, "or replace "),
                (create.temporary, "temporary "),
                (create.if_not_exists, "if not exists "),
            ];
            let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
            let body = match &create.body {
                TableBody::Definition(definition) => table(definition, mode),
                TableBody::Like(like) => format!("like {like}"),
                TableBody::AsSelect(None) => "as select".to_owned(),
                TableBody::AsSelect(Some(definition)) => {
                    format!("{} as select", table(definition, mode))
                }
            };
            format!("create {flags}{}: {body}", create.name)
        }
        Statement::AlterTable(alter) => {
            let flags = [(alter.if_exists, "if exists "), (alter.ignore, "ignore ")];
            let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
            let clauses: Vec<String> = alter.clauses.iter().map(|c| clause(c, mode)).collect();
            format!("alter {flags}{}: {}", alter.name, clauses.join("; "))
        }
        Statement::RenameTable { pairs } => {
            let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a} to {b}")).collect();
            format!("rename {}", pairs.join(", "))
        }
        Statement::DropTable { names, temporary } => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            format!("drop {}{}", if *temporary { "temporary " } else { "" }, names.join(", "))
        }
        Statement::TruncateTable { name } => format!("truncate {name}"),
        Statement::CreateDatabase { name, or_replace, charset } => {
            format!("create database {name} {charset:?} {or_replace}")
        }
        Statement::AlterDatabase { name, charset } => format!("alter database {name} {charset:?}"),
        Statement::DropDatabase { name } => format!("drop database {name}"),
        Statement::Transaction(TransactionControl::Xa(step, xid)) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("xa {step:?} {}/{}/{}", text(&xid.gtrid), text(&xid.bqual), xid.format_id)
        }
        Statement::Transaction(control) => format!("{control:?}").to_lowercase(),
        Statement::RowsChanged { tables, cause } => {
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            format!("rows changed in {}: {cause}", tables.join(", "))
        }
        Statement::Dml { table: Some(table) } => format!("rows as text into {table}"),
        Statement::Dml { table: None } => "rows as text".to_owned(),
        Statement::Unsure { tables, reason } => {
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            format!("unsure of {}: {reason}", tables.join(", "))
        }
        Statement::Other => "other".to_owned(),
    }
}

fn table(definition: &TableDefinition, mode: &SqlMode) -> String {
    let mut text: Vec<String> = definition.columns.iter().map(|c| column(c, mode)).collect();
    if !definition.primary_key.is_empty() {
        text.push(format!("key {}", definition.primary_key.join("+")));
    }
    if let Some(charset) = &definition.charset {
        text.push(format!("charset {charset}"));
    }
    if let Some(comment) = &definition.comment {
        text.push(format!("comment {comment:?}"));
    }
    if definition.system_versioned {
        text.push("versioned".to_owned());
    }
    text.join("; ")
}

fn clause(clause: &AlterClause, mode: &SqlMode) -> String {
    let maybe = |on: &bool, text| if *on { text } else { "" };
    match clause {
        AlterClause::AddColumn { column: definition, place: at, if_not_exists } => {
            let maybe = maybe(if_not_exists, "if not exists ");
            format!("add {maybe}{}{}", column(definition, mode), place(at.as_ref()))
        }
        AlterClause::DropColumn { name, if_exists } => {
            format!("drop {}{name}", maybe(if_exists, "if exists "))
        }
        AlterClause::ChangeColumn { from, column: definition, place: at, if_exists } => {
            let maybe = maybe(if_exists, "if exists ");
            format!("change {maybe}{from} to {}{}", column(definition, mode), place(at.as_ref()))
        }
        AlterClause::RenameColumn { from, to, if_exists } => {
            format!("rename {}{from} to {to}", maybe(if_exists, "if exists "))
        }
        AlterClause::SetDefault { name, default, .. } => {
            format!("default of {name}{}", default_text(default))
        }
        AlterClause::SetInvisible { name, invisible } => format!("invisible {name} {invisible}"),
        AlterClause::AddPrimaryKey { columns, .. } => format!("key {}", columns.join("+")),
        AlterClause::DropPrimaryKey => "no key".to_owned(),
        AlterClause::AddUniqueKey => "unique".to_owned(),
        AlterClause::ConvertCharset { charset } => format!("convert to {charset:?}"),
        AlterClause::DefaultCharset { charset } => format!("charset {charset}"),
        AlterClause::Comment { comment } => format!("comment {comment:?}"),
        AlterClause::SystemVersioning { add } => format!("versioning {add}"),
        AlterClause::RenameTo { table } => format!("rename to {table}"),
    }
}

fn place(place: Option<&ColumnPlace>) -> String {
    match place {
        Some(ColumnPlace::First) => " first".to_owned(),
        Some(ColumnPlace::After(name)) => format!(" after {name}"),
        Some(ColumnPlace::Last) | None => String::new(),
    }
}

fn column(definition: &ColumnDefinition, mode: &SqlMode) -> String {
    let MysqlColumn { name, column_type, nullable, .. } =
        definition.resolve(&Arc::from("utf8mb4"), mode);
    let mut text = format!("{name} {}", type_text(&column_type));
    text.push_str(if nullable { " null" } else { " not null" });
    text.push_str(&default_text(&definition.default));
    let flags = [
        (definition.auto_increment, "auto_increment"),
        (definition.generated && definition.virtual_column, "virtual"),
        (definition.generated && !definition.virtual_column, "stored"),
        (definition.row_period, "period"),
        (definition.invisible, "invisible"),
        (definition.compressed, "compressed"),
        (definition.primary_key, "primary"),
        (definition.unique, "unique"),
    ];
    for (_, flag) in flags.iter().filter(|(on, _)| *on) {
        write!(text, " {flag}").expect("to memory");
    }
    if let Some(comment) = &definition.comment {
        write!(text, " {comment:?}").expect("to memory");
    }
    text
}

fn default_text(default: &DeclaredDefault) -> String {
    match default {
        DeclaredDefault::Known(MysqlDefault::None) => String::new(),
        DeclaredDefault::Known(MysqlDefault::Text(text)) => format!(" = {text:?}"),
        DeclaredDefault::Known(MysqlDefault::Bytes(bytes)) => format!(" = bytes {bytes:?}"),
        DeclaredDefault::Known(other) => format!(" = {}", format!("{other:?}").to_lowercase()),
        DeclaredDefault::Number(number) => format!(" = {number}"),
    }
}

fn type_text(column_type: &MysqlType) -> String {
    let unsigned = |u: &bool| if *u { " unsigned" } else { "" };
    match column_type {
        MysqlType::TinyInt { unsigned: u, display_width } => {
            let width = display_width.map(|w| format!("({w})")).unwrap_or_default();
            format!("tinyint{width}{}", unsigned(u))
        }
        MysqlType::SmallInt { unsigned: u } => format!("smallint{}", unsigned(u)),
        MysqlType::MediumInt { unsigned: u } => format!("mediumint{}", unsigned(u)),
        MysqlType::Int { unsigned: u } => format!("int{}", unsigned(u)),
        MysqlType::BigInt { unsigned: u } => format!("bigint{}", unsigned(u)),
        MysqlType::Decimal { precision, scale, unsigned: u } => {
            format!("decimal({precision},{scale}){}", unsigned(u))
        }
        MysqlType::Char { length, charset } => format!("char({length}) {charset}"),
        MysqlType::Varchar { length, charset } => format!("varchar({length}) {charset}"),
        MysqlType::Text { length_bytes, charset } => format!("text#{length_bytes} {charset}"),
        MysqlType::Blob { length_bytes } => format!("blob#{length_bytes}"),
        MysqlType::Enum { labels, charset } => format!("enum({}) {charset}", labels.join("|")),
        MysqlType::Set { labels, charset } => format!("set({}) {charset}", labels.join("|")),
        other => format!("{other:?}").to_lowercase(),
    }
}
