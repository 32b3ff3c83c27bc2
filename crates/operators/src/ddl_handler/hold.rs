//! What waits: a DDL and everything behind it; and the state it is kept in.

use std::collections::{BTreeMap, VecDeque};

use lakeward_core::{DdlId, DdlNeeds, Offset, Offsets, Position, SchemaEvent, SplitId, TableId};
use serde::{Deserialize, Serialize};

use crate::held::HeldQueue;
use crate::policy::Decision;
use crate::projection::Projection;

pub(super) struct Hold {
    pub(super) event: SchemaEvent,
    pub(super) decision: Decision,
    pub(super) needs: DdlNeeds,
    pub(super) since_ms: i64,
    pub(super) warned: bool,
    /// Just before the DDL.
    pub(super) offsets: Offsets,
    pub(super) behind: Behind,
}

/// What waits behind a DDL.
pub(super) struct Behind {
    pub(super) queue: HeldQueue,
    /// Other tables with records in the queue, and up to where each is let through.
    pub(super) followers: BTreeMap<TableId, Place>,
}

/// A place in the stream: everything before it has been let through.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Place {
    /// Orders places.
    pub(super) position: Position,
    pub(super) offsets: Offsets,
}

/// What is being let go.
pub(super) struct Released {
    pub(super) id: TableId,
    pub(super) behind: Behind,
    /// Just before the next DDL of it.
    pub(super) offsets: Offsets,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TableEntry {
    pub(super) table: TableId,
    pub(super) projection: Option<Projection>,
    pub(super) recent_ddl: VecDeque<DdlId>,
    pub(super) failed: bool,
    pub(super) hold: Option<HoldEntry>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct HoldEntry {
    pub(super) event: SchemaEvent,
    pub(super) offsets: BTreeMap<SplitId, Offset>,
    pub(super) followers: Vec<(TableId, Place)>,
    /// The tables whose newest records wait here.
    pub(super) newest: Vec<TableId>,
}
