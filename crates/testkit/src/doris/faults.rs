//! What a test makes go wrong, and what it may ask about afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

/// The moment at which a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    /// A frontend answers a load or a second phase with the address of a backend.
    Redirect,
    /// A backend has read the body of a load.
    Load,
    /// The second phase of a transaction is a commit.
    Commit,
    /// The second phase of a transaction is an abort.
    Abort,
    /// A frontend is asked for the state of a label.
    LabelState,
    /// A statement arrives through the MySQL protocol.
    Statement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is done, but the connection is cut before the answer.
    LoseAnswer,
    /// The connection is cut, and nothing is done.
    Cut,
    /// It is done, and the answer comes late.
    Delay(Duration),
    /// It is refused, with this message.
    Refuse(String),
    /// The load is refused because the tablet has too many versions (-235).
    TooManyVersions,
    /// The rows are committed, and become visible after the answer `Publish Timeout`; see
    /// [`super::StandIn::publish_pending`].
    PublishTimeout,
    /// The redirect names this `host:port`.
    RedirectTo(String),
    /// An answer that is not of the protocol: this HTTP status and an empty body.
    HttpStatus(u16),
}

/// Faults that wait for their moment; each strikes once.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<(Moment, Option<String>, Fault)>,
}

impl Faults {
    pub fn add(&mut self, moment: Moment, table: Option<&str>, fault: Fault, times: usize) {
        for _ in 0..times {
            self.waiting.push((moment, table.map(str::to_owned), fault.clone()));
        }
    }

    /// The fault that strikes now, if there is one. `table` is the table that the request is about, where it says so.
    pub fn take(&mut self, moment: Moment, table: Option<&str>) -> Option<Fault> {
        let at = self.waiting.iter().position(|(when, of, _)| {
            *when == moment && (of.is_none() || of.as_deref() == table)
        })?;
        Some(self.waiting.remove(at).2)
    }

    /// As [`Faults::take`], for some faults only.
    pub fn take_matching(&mut self, moment: Moment, faults: &[Fault]) -> Option<Fault> {
        let at =
            self.waiting.iter().position(|(when, _, f)| *when == moment && faults.contains(f))?;
        Some(self.waiting.remove(at).2)
    }

    pub fn pending(&self) -> usize {
        self.waiting.len()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// A request as a node received it. Secrets are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// `fe0`, `be1`.
    pub node: String,
    pub method: String,
    pub path: String,
    /// Without `Authorization`.
    pub headers: BTreeMap<String, String>,
    pub has_authorization: bool,
}
