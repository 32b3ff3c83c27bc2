//! One column's declaration.

use std::sync::Arc;

use lakeward_core::ColumnPlace;

use super::column_type::column_type;
use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{ColumnDefinition, DeclaredCharset, DeclaredDefault, DeclaredType};
use super::tokens::Token;
use super::{Flavor, SqlMode, charsets};
use crate::model::{MysqlColumn, MysqlDefault, MysqlType};

/// Name, type and attributes, up to the comma or parenthesis after them, or a FIRST or AFTER.
pub fn column(c: &mut Cursor<'_, '_>, mode: &SqlMode) -> Parsed<ColumnDefinition> {
    let name = c.column_name()?;
    column_named(name, c, mode)
}

/// As [`column`], after the name.
pub fn column_named(
    name: Arc<str>,
    c: &mut Cursor<'_, '_>,
    mode: &SqlMode,
) -> Parsed<ColumnDefinition> {
    let mut column = ColumnDefinition::empty(name);
    column_type(c, mode, &mut column)?;
    while !(c.is_end() || c.is_symbol(',') || c.is_symbol(')')) {
        if matches!(c.keyword().as_str(), "FIRST" | "AFTER") {
            break;
        }
        attribute(c, &mut column)?;
    }
    Ok(column)
}

/// FIRST, AFTER, or nothing.
pub fn place(c: &mut Cursor<'_, '_>) -> Parsed<Option<ColumnPlace>> {
    if c.take_word("FIRST") {
        Ok(Some(ColumnPlace::First))
    } else if c.take_word("AFTER") {
        Ok(Some(ColumnPlace::After(c.column_name()?)))
    } else {
        Ok(None)
    }
}

fn attribute(c: &mut Cursor<'_, '_>, column: &mut ColumnDefinition) -> Parsed<()> {
    let is_default_charset = c.is_word("DEFAULT");
    if !is_default_charset && let Some(charset) = c.charset_clause() {
        // A column's COLLATE after CHARACTER SET names the same set; MariaDB's free collations name none.
        if let Some(charset) = charset {
            column.charset = DeclaredCharset::Named(charset);
        }
        return Ok(());
    }
    let keyword = c.keyword();
    match keyword.as_str() {
        "DEFAULT" => {
            c.next();
            column.default = default(c)?;
            return Ok(());
        }
        "REFERENCES" => return references(c),
        "GENERATED" | "AS" => return generated(c, column),
        _ => c.skip(),
    }
    match keyword.as_str() {
        "NOT" => {
            if c.take_word("NULL") {
                column.nullable = Some(false);
            } else {
                // NOT ENFORCED, NOT SECONDARY.
                c.next();
            }
        }
        "NULL" => column.nullable = Some(true),
        "ASCII" => column.charset = DeclaredCharset::Named("latin1".into()),
        "UNICODE" => column.charset = DeclaredCharset::Named("ucs2".into()),
        "BYTE" => column.charset = DeclaredCharset::Named("binary".into()),
        "AUTO_INCREMENT" => column.auto_increment = true,
        "SERIAL" => {
            c.take_words(&["DEFAULT", "VALUE"]);
            column.nullable = Some(false);
            column.auto_increment = true;
            column.unique = true;
        }
        "PRIMARY" | "KEY" => {
            c.take_word("KEY");
            column.primary_key = true;
        }
        "UNIQUE" => {
            c.take_word("KEY");
            column.unique = true;
        }
        "COMMENT" => column.comment = Some(c.text()?).filter(|text| !text.is_empty()),
        "ON" => {
            // ON UPDATE CURRENT_TIMESTAMP(6)
            c.take_word("UPDATE");
            c.next();
            c.skip_parentheses();
        }
        "VIRTUAL" => column.virtual_column = true,
        "STORED" | "PERSISTENT" => column.virtual_column = false,
        "INVISIBLE" => column.invisible = true,
        "COMPRESSED" => {
            column.compressed = true;
            if c.take_symbol('=') {
                c.next();
            }
        }
        "CONSTRAINT" if !c.is_word("CHECK") => {
            c.next();
        }
        "COLUMN_FORMAT" | "STORAGE" | "SRID" => {
            c.next();
        }
        // MariaDB takes any attribute=value for its engines.
        _ if c.take_symbol('=') => {
            c.next();
        }
        _ => {}
    }
    Ok(())
}

/// `[GENERATED ALWAYS] AS (…)` and MariaDB's `GENERATED ALWAYS AS ROW START`.
fn generated(c: &mut Cursor<'_, '_>, column: &mut ColumnDefinition) -> Parsed<()> {
    c.take_words(&["GENERATED", "ALWAYS"]);
    if !c.take_word("AS") {
        return Err(Unclear("a generated column cannot be read"));
    }
    column.generated = true;
    if c.take_word("ROW") {
        c.next();
        column.row_period = true;
        column.nullable = Some(false);
    } else {
        c.skip();
        column.virtual_column = true;
    }
    Ok(())
}

/// An inline foreign key, whose SET NULL and SET DEFAULT say nothing about the column.
fn references(c: &mut Cursor<'_, '_>) -> Parsed<()> {
    c.next();
    c.column_name()?;
    c.skip_parentheses();
    if c.take_word("MATCH") {
        c.next();
    }
    while c.is_word("ON") && (c.is_word_at(1, "DELETE") || c.is_word_at(1, "UPDATE")) {
        c.next();
        c.next();
        // SET NULL, SET DEFAULT and NO ACTION are two words.
        if c.take_any(&["SET", "NO"]) || !c.is_end() {
            c.next();
        }
    }
    Ok(())
}

/// After DEFAULT.
pub fn default(c: &mut Cursor<'_, '_>) -> Parsed<DeclaredDefault> {
    let known = |default| Ok(DeclaredDefault::Known(default));
    let parentheses = count_opening(c);
    let value = constant(c)?;
    for open in (1..=parentheses).rev() {
        if !c.take_symbol(')') {
            // More than a constant in there: leave the parentheses by their ends.
            leave_parentheses(c, open);
            skip_operators(c);
            return known(MysqlDefault::Expression);
        }
    }
    if skip_operators(c) {
        return known(MysqlDefault::Expression);
    }
    Ok(value)
}

fn count_opening(c: &mut Cursor<'_, '_>) -> usize {
    let mut depth = 0;
    while c.take_symbol('(') {
        depth += 1;
    }
    depth
}

fn leave_parentheses(c: &mut Cursor<'_, '_>, mut depth: usize) {
    while depth > 0 && !c.is_end() {
        if c.take_symbol(')') {
            depth -= 1;
        } else {
            c.skip();
        }
    }
}

/// MariaDB takes expressions without parentheses. True if something went on after the first operand.
fn skip_operators(c: &mut Cursor<'_, '_>) -> bool {
    let mut any = false;
    while matches!(c.peek(), Some(Token::Symbol('+' | '-' | '*' | '/' | '%' | '|' | '&' | '^'))) {
        while matches!(c.peek(), Some(Token::Symbol(s)) if !matches!(s, '(' | ')' | ',')) {
            c.next();
        }
        c.skip();
        c.skip_parentheses();
        any = true;
    }
    any
}

fn constant(c: &mut Cursor<'_, '_>) -> Parsed<DeclaredDefault> {
    let known = DeclaredDefault::Known;
    let mut sign = "";
    while let Some(Token::Symbol(symbol @ ('+' | '-'))) = c.peek() {
        c.next();
        if *symbol == '-' {
            sign = if sign.is_empty() { "-" } else { "" };
        }
    }
    if c.is_symbol('(') {
        c.skip();
        return Ok(known(MysqlDefault::Expression));
    }
    Ok(match c.next() {
        Some(Token::Number(number)) => DeclaredDefault::Number(format!("{sign}{number}").into()),
        Some(Token::Text(text)) if sign.is_empty() => {
            let mut text = text.clone();
            // Adjacent strings are one string.
            while let Some(Token::Text(more)) = c.peek() {
                text.push_str(more);
                c.next();
            }
            known(MysqlDefault::Text(text.into()))
        }
        Some(Token::Bytes(bytes)) if sign.is_empty() => known(MysqlDefault::Bytes(bytes.clone())),
        Some(Token::Word(word)) if sign.is_empty() => {
            let word = word.to_ascii_uppercase();
            let is_call = c.is_symbol('(');
            match word.as_str() {
                "NULL" if !is_call => known(MysqlDefault::Null),
                "TRUE" if !is_call => DeclaredDefault::Number("1".into()),
                "FALSE" if !is_call => DeclaredDefault::Number("0".into()),
                "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP" | "NOW" => {
                    c.skip_parentheses();
                    known(MysqlDefault::Now)
                }
                "DATE" | "TIME" | "TIMESTAMP" if matches!(c.peek(), Some(Token::Text(_))) => {
                    known(MysqlDefault::Text(c.text()?))
                }
                // NEXT VALUE FOR seq
                "NEXT" if c.take_words(&["VALUE", "FOR"]) => {
                    c.column_name()?;
                    known(MysqlDefault::Expression)
                }
                _ => {
                    c.skip_parentheses();
                    known(MysqlDefault::Expression)
                }
            }
        }
        Some(_) => known(MysqlDefault::Expression),
        None => return Err(Unclear("a default value is missing")),
    })
}

impl ColumnDefinition {
    /// A column before its type and attributes are read.
    pub(super) fn empty(name: Arc<str>) -> Self {
        Self {
            name,
            column_type: DeclaredType::Settled(MysqlType::Year),
            charset: DeclaredCharset::Inherit,
            nullable: None,
            default: DeclaredDefault::Known(MysqlDefault::None),
            float_scale: None,
            auto_increment: false,
            generated: false,
            virtual_column: false,
            row_period: false,
            invisible: false,
            compressed: false,
            primary_key: false,
            unique: false,
            comment: None,
        }
    }

    /// The column in a table with this default character set.
    pub fn resolve(&self, table_charset: &Arc<str>, mode: &SqlMode) -> MysqlColumn {
        let charset = match &self.charset {
            DeclaredCharset::Inherit => table_charset.clone(),
            DeclaredCharset::Named(charset) => charsets::canonical(charset),
        };
        let column_type = self.column_type.settle(&charset);
        let is_implicit_timestamp = matches!(column_type, MysqlType::Timestamp { .. })
            && !mode.explicit_defaults_for_timestamp
            && !(self.generated && mode.flavor == Flavor::MariaDb);
        let nullable = match self.nullable {
            _ if self.auto_increment || self.primary_key => false,
            Some(nullable) => nullable,
            None => !is_implicit_timestamp,
        };
        let mut column = MysqlColumn {
            name: self.name.clone(),
            column_type,
            nullable,
            default: MysqlDefault::None,
            auto_increment: self.auto_increment,
            generated: self.generated,
            virtual_column: self.virtual_column,
            invisible: self.invisible,
            compressed: self.compressed,
            float_scale: self.float_scale,
            comment: self.comment.clone(),
        };
        column.default = self.default.resolve(&column, mode);
        column
    }
}

impl DeclaredDefault {
    /// The default of this column.
    pub fn resolve(&self, column: &MysqlColumn, mode: &SqlMode) -> MysqlDefault {
        let fsp = match column.column_type {
            MysqlType::Time { fsp }
            | MysqlType::DateTime { fsp }
            | MysqlType::Timestamp { fsp } => Some(usize::from(fsp)),
            _ => None,
        };
        let is_bit = matches!(column.column_type, MysqlType::Bit { .. });
        match self {
            DeclaredDefault::Known(MysqlDefault::None) => {
                let is_null = column.nullable && !column.generated && !column.auto_increment;
                if is_null { MysqlDefault::Null } else { MysqlDefault::None }
            }
            DeclaredDefault::Known(MysqlDefault::Text(text)) if is_bit => {
                MysqlDefault::Bytes(text.as_bytes().to_vec())
            }
            DeclaredDefault::Known(MysqlDefault::Text(text)) if !mode.rounds_fractions => {
                let text = fsp.map_or(&**text, |fsp| cut_fraction(text, fsp));
                MysqlDefault::Text(text.into())
            }
            DeclaredDefault::Known(default) => default.clone(),
            DeclaredDefault::Number(number) if is_bit => number
                .parse::<u64>()
                .map_or(MysqlDefault::Expression, |n| MysqlDefault::Bytes(n.to_be_bytes().into())),
            DeclaredDefault::Number(number) => MysqlDefault::Text(number.clone()),
        }
    }
}

/// Without the digits of a second beyond `fsp`.
fn cut_fraction(text: &str, fsp: usize) -> &str {
    match text.find('.') {
        Some(point) if fsp == 0 => &text[..point],
        Some(point) => text.get(..=point + fsp).unwrap_or(text),
        None => text,
    }
}
