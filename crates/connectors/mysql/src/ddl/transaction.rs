//! BEGIN, COMMIT, savepoints, and XA with its transaction names.

use super::cursor::{Cursor, Parsed, Unclear};
use super::statement::{Statement, TransactionControl, XaStep, Xid};
use super::tokens::Token;

/// A statement that opens with one of these words; `None` where it is none of transaction control.
pub fn transaction(c: &mut Cursor<'_, '_>) -> Parsed<Option<Statement>> {
    let control = match c.keyword().as_str() {
        "BEGIN" => {
            c.next();
            c.take_word("WORK");
            // BEGIN NOT ATOMIC is a block of statements.
            c.is_end().then_some(TransactionControl::Begin)
        }
        "START" => c.take_words(&["START", "TRANSACTION"]).then_some(TransactionControl::Begin),
        "COMMIT" => Some(TransactionControl::Commit),
        "ROLLBACK" => {
            c.next();
            c.take_word("WORK");
            Some(match c.take_word("TO") {
                true => TransactionControl::Savepoint,
                false => TransactionControl::Rollback,
            })
        }
        "SAVEPOINT" => Some(TransactionControl::Savepoint),
        "RELEASE" => c.is_word_at(1, "SAVEPOINT").then_some(TransactionControl::Savepoint),
        "XA" => {
            c.next();
            xa(c)?
        }
        _ => None,
    };
    Ok(control.map(Statement::Transaction))
}

fn xa(c: &mut Cursor<'_, '_>) -> Parsed<Option<TransactionControl>> {
    let verb = c.keyword();
    c.next();
    let step = match verb.as_str() {
        "START" | "BEGIN" => XaStep::Start,
        "END" => XaStep::End,
        "PREPARE" => XaStep::Prepare,
        "COMMIT" => XaStep::Commit { one_phase: false },
        "ROLLBACK" => XaStep::Rollback,
        _ => return Ok(None),
    };
    let xid = xid(c)?;
    let step = match step {
        XaStep::Commit { .. } => XaStep::Commit { one_phase: c.take_words(&["ONE", "PHASE"]) },
        other => other,
    };
    Ok(Some(TransactionControl::Xa(step, xid)))
}

/// `gtrid[, bqual[, format_id]]`, each string in any literal form.
fn xid(c: &mut Cursor<'_, '_>) -> Parsed<Xid> {
    let gtrid = bytes(c)?;
    let bqual = if c.take_symbol(',') { bytes(c)? } else { Vec::new() };
    let format_id = if c.take_symbol(',') { format_id(c)? } else { 1 };
    Ok(Xid { gtrid, bqual, format_id })
}

const UNCLEAR: Unclear = Unclear("the name of an XA transaction cannot be read");

fn bytes(c: &mut Cursor<'_, '_>) -> Parsed<Vec<u8>> {
    match c.next() {
        Some(Token::Text(text)) => Ok(text.as_bytes().to_vec()),
        Some(Token::Bytes(bytes)) => Ok(bytes.clone()),
        _ => Err(UNCLEAR),
    }
}

fn format_id(c: &mut Cursor<'_, '_>) -> Parsed<u64> {
    match c.next() {
        Some(Token::Number(number)) => number.parse().map_err(|_| UNCLEAR),
        Some(Token::Bytes(bytes)) if bytes.len() <= 8 => {
            Ok(bytes.iter().fold(0, |acc, byte| acc << 8 | u64::from(*byte)))
        }
        _ => Err(UNCLEAR),
    }
}
