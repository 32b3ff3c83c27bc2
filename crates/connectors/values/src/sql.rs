//! The small part of SQL that [`crate::Database`] runs: enough to write scenarios as statements.

use std::iter::Peekable;
use std::str::FromStr;
use std::sync::Arc;
use std::vec::IntoIter;

use lakeward_core::{Column, ColumnPlace, DataType, Error, Literal, Result, TableId};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement {
    Begin,
    Commit,
    CreateTable { table: TableId, columns: Vec<Column>, key: Vec<Arc<str>> },
    DropTable { table: TableId },
    Truncate { table: TableId },
    RenameTable { from: TableId, to: TableId },
    Alter { table: TableId, clauses: Vec<Clause> },
    Insert { table: TableId, columns: Option<Vec<Arc<str>>>, rows: Vec<Vec<Literal>> },
    Update { table: TableId, set: Vec<(Arc<str>, Change)>, filter: Filter },
    Delete { table: TableId, filter: Filter },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Clause {
    Add { column: Column, place: ColumnPlace },
    Drop(Arc<str>),
    Rename { from: Arc<str>, to: Arc<str> },
    Modify(Column),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    To(Literal),
    /// The column's own value plus this.
    Plus(i64),
}

/// Conditions that must all hold.
pub(crate) type Filter = Vec<(Arc<str>, Comparison, Literal)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    Greater,
}

/// Statements, separated by semicolons.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable() };
    let mut statements = Vec::new();
    loop {
        while parser.takes(";") {}
        if parser.tokens.peek().is_none() {
            return Ok(statements);
        }
        statements.push(parser.statement()?);
        if parser.tokens.peek().is_some() {
            parser.expect(";")?;
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A word or a sign; words in lower case.
    Word(String),
    Text(String),
    Number(String),
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut chars = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(c) = chars.next() {
        let mut rest = |first: char, goes_on: fn(char) -> bool| {
            let mut word = String::from(first);
            while let Some(next) = chars.next_if(|c| goes_on(*c)) {
                word.push(next);
            }
            word
        };
        match c {
            c if c.is_whitespace() => {}
            '\'' => {
                let mut value = String::new();
                loop {
                    match chars.next() {
                        Some('\'') if chars.next_if_eq(&'\'').is_some() => value.push('\''),
                        Some('\'') => break,
                        Some(c) => value.push(c),
                        None => return Err(Error::config("a text in the script has no end")),
                    }
                }
                tokens.push(Token::Text(value));
            }
            '-' | '0'..='9' => {
                tokens.push(Token::Number(rest(c, |c| c.is_ascii_digit() || c == '.')))
            }
            c if c.is_alphabetic() || c == '_' => {
                let word = rest(c, |c| c.is_alphanumeric() || c == '_');
                tokens.push(Token::Word(word.to_lowercase()));
            }
            c => tokens.push(Token::Word(c.into())),
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser {
    fn statement(&mut self) -> Result<Statement> {
        let verb = self.name()?;
        match &*verb {
            "begin" => Ok(Statement::Begin),
            "commit" => Ok(Statement::Commit),
            "create" => {
                self.expect("table")?;
                self.create()
            }
            "drop" => {
                self.expect("table")?;
                Ok(Statement::DropTable { table: self.table()? })
            }
            "truncate" => {
                self.takes("table");
                Ok(Statement::Truncate { table: self.table()? })
            }
            "rename" => {
                self.expect("table")?;
                let from = self.table()?;
                self.expect("to")?;
                Ok(Statement::RenameTable { from, to: self.table()? })
            }
            "alter" => {
                self.expect("table")?;
                let table = self.table()?;
                let clauses = self.list(Self::clause)?;
                Ok(Statement::Alter { table, clauses })
            }
            "insert" => self.insert(),
            "update" => {
                let table = self.table()?;
                self.expect("set")?;
                let set = self.list(Self::assignment)?;
                Ok(Statement::Update { table, set, filter: self.filter()? })
            }
            "delete" => {
                self.expect("from")?;
                Ok(Statement::Delete { table: self.table()?, filter: self.filter()? })
            }
            other => Err(unexpected(other)),
        }
    }

    fn create(&mut self) -> Result<Statement> {
        let table = self.table()?;
        let mut columns = Vec::new();
        let mut key = Vec::new();
        self.expect("(")?;
        loop {
            if self.takes("primary") {
                self.expect("key")?;
                key = self.names()?;
            } else {
                let column = self.column()?;
                if self.takes("primary") {
                    self.expect("key")?;
                    key = vec![column.name.clone()];
                }
                columns.push(column);
            }
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(Statement::CreateTable { table, columns, key })
    }

    fn insert(&mut self) -> Result<Statement> {
        self.expect("into")?;
        let table = self.table()?;
        let columns = match self.tokens.peek() {
            Some(Token::Word(w)) if w == "(" => Some(self.names()?),
            _ => None,
        };
        self.expect("values")?;
        let rows = self.list(|parser| {
            parser.expect("(")?;
            let row = parser.list(Self::literal)?;
            parser.expect(")")?;
            Ok(row)
        })?;
        Ok(Statement::Insert { table, columns, rows })
    }

    fn clause(&mut self) -> Result<Clause> {
        let verb = self.name()?;
        self.takes("column");
        match &*verb {
            "add" => {
                let column = self.column()?;
                let place = if self.takes("first") {
                    ColumnPlace::First
                } else if self.takes("after") {
                    ColumnPlace::After(self.name()?)
                } else {
                    ColumnPlace::Last
                };
                Ok(Clause::Add { column, place })
            }
            "drop" => Ok(Clause::Drop(self.name()?)),
            "rename" => {
                let from = self.name()?;
                self.expect("to")?;
                Ok(Clause::Rename { from, to: self.name()? })
            }
            "modify" => Ok(Clause::Modify(self.column()?)),
            other => Err(unexpected(other)),
        }
    }

    fn column(&mut self) -> Result<Column> {
        let name = self.name()?;
        let data_type = self.data_type()?;
        let mut column = Column::new(name, data_type, true);
        loop {
            if self.takes("not") {
                self.expect("null")?;
                column.nullable = false;
            } else if self.takes("default") {
                column.default = Some(self.literal()?);
            } else {
                return Ok(column);
            }
        }
    }

    fn data_type(&mut self) -> Result<DataType> {
        let name = self.name()?;
        let mut sizes: Vec<u32> = Vec::new();
        if self.takes("(") {
            sizes = self.list(Self::number)?;
            self.expect(")")?;
        }
        let size = |at: usize| sizes.get(at).copied();
        Ok(match &*name {
            "boolean" => DataType::Boolean,
            "tinyint" => DataType::TinyInt,
            "smallint" => DataType::SmallInt,
            "int" => DataType::Int,
            "bigint" => DataType::BigInt,
            "double" => DataType::Double,
            "decimal" => DataType::Decimal {
                precision: size(0).unwrap_or(10) as u8,
                scale: size(1).unwrap_or(0) as i8,
            },
            "varchar" => DataType::Varchar { length: size(0).unwrap_or(255) },
            "text" => DataType::String,
            other => return Err(unexpected(other)),
        })
    }

    fn assignment(&mut self) -> Result<(Arc<str>, Change)> {
        let column = self.name()?;
        self.expect("=")?;
        if let Some(Token::Word(word)) = self.tokens.peek()
            && **word == *column
        {
            self.tokens.next();
            self.expect("+")?;
            let plus = self.number()?;
            return Ok((column, Change::Plus(plus)));
        }
        Ok((column, Change::To(self.literal()?)))
    }

    fn filter(&mut self) -> Result<Filter> {
        let mut filter = Vec::new();
        if !self.takes("where") {
            return Ok(filter);
        }
        loop {
            let column = self.name()?;
            let comparison = match &*self.name()? {
                "=" => Comparison::Equal,
                "<" => Comparison::Less,
                ">" => Comparison::Greater,
                other => return Err(unexpected(other)),
            };
            filter.push((column, comparison, self.literal()?));
            if !self.takes("and") {
                return Ok(filter);
            }
        }
    }

    fn literal(&mut self) -> Result<Literal> {
        match self.tokens.next() {
            Some(Token::Text(text)) => Ok(Literal::String(text.into())),
            Some(Token::Number(n)) if n.contains('.') => Ok(Literal::Double(number(&n)?)),
            Some(Token::Number(n)) => Ok(Literal::Long(number(&n)?)),
            Some(Token::Word(w)) if w == "null" => Ok(Literal::Null),
            Some(Token::Word(w)) if w == "true" => Ok(Literal::Boolean(true)),
            Some(Token::Word(w)) if w == "false" => Ok(Literal::Boolean(false)),
            other => Err(unexpected(&format!("{other:?}"))),
        }
    }

    fn table(&mut self) -> Result<TableId> {
        let first = self.name()?;
        if self.takes(".") {
            Ok(TableId::new(first, self.name()?))
        } else {
            Ok(TableId::new("shop", first))
        }
    }

    fn names(&mut self) -> Result<Vec<Arc<str>>> {
        self.expect("(")?;
        let names = self.list(Self::name)?;
        self.expect(")")?;
        Ok(names)
    }

    fn name(&mut self) -> Result<Arc<str>> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word.into()),
            other => Err(unexpected(&format!("{other:?}"))),
        }
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        match self.tokens.next() {
            Some(Token::Number(n)) => number(&n),
            other => Err(unexpected(&format!("{other:?}"))),
        }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.takes(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn takes(&mut self, word: &str) -> bool {
        self.tokens.next_if(|t| matches!(t, Token::Word(w) if w == word)).is_some()
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.takes(word) {
            return Ok(());
        }
        let found = self.tokens.peek();
        Err(Error::config("the script has another word than expected")
            .with("expected", word)
            .with("found", format!("{found:?}")))
    }
}

fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::config("the script has a bad number").with("number", text))
}

fn unexpected(word: &str) -> Error {
    Error::config("the script has a word that is not understood here").with("word", word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_scenarios_use() {
        let script = "
            create table t (id int primary key, name varchar(20) not null default 'it''s', d decimal(8, 2));
            create table s.u (a int, b bigint, primary key (a, b));
            insert into t (id, name) values (1, 'x'), (-2, null);
            begin; update t set id = id + 10, name = 'y' where id = 1 and name > 'a'; commit;
            alter table t add column c int default 5 after id, rename column name to label, drop d, modify c bigint;
            truncate table t; rename table t to t2; delete from t2; drop table s.u";
        let statements = parse(script).unwrap();
        assert_eq!(statements.len(), 11);
        let Statement::CreateTable { columns, key, .. } = &statements[0] else { panic!("create") };
        assert_eq!(columns[1].default, Some(Literal::String("it's".into())));
        assert!(!columns[1].nullable);
        assert_eq!(**key, ["id".into()]);
        assert_eq!(columns[2].data_type, DataType::Decimal { precision: 8, scale: 2 });
        let Statement::Alter { clauses, .. } = &statements[6] else { panic!("alter") };
        assert_eq!(clauses.len(), 4);
        let Statement::Update { set, filter, .. } = &statements[4] else { panic!("update") };
        assert_eq!(set[0].1, Change::Plus(10));
        assert_eq!(filter.len(), 2);
        for wrong in
            ["selekt", "insert into t values (1", "update t set", "create table t (a blob)"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
