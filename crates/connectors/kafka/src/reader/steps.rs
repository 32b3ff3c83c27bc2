//! Steps of tables: decided when records or a DDL ask for them, stored by a checkpoint, and only then taken.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lakeward_core::{
    DdlId, Position, Result, SchemaChange, SchemaEvent, StreamRecord, TableId, Target,
};

use super::KafkaReader;
use crate::decode::Stop;
use crate::evolve::{Plan, Survey, of_ddl};
use crate::format::{Ddl, DdlChange};
use crate::shape::{Order, Shape, Shapes};
use crate::state::Decision;

/// Statements that are remembered. Copies of one arrive close together.
const STATEMENTS: usize = 256;

/// A DDL that waits until every partition has passed it.
pub struct Barrier {
    statement: u64,
}

/// The same statement in another partition has the same number. FNV-1a, the same in every process.
fn number_of(all: &[Ddl]) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for ddl in all {
        ddl.table.namespace.as_bytes().hash(&mut hasher);
        ddl.table.name.as_bytes().hash(&mut hasher);
        ddl.sql.as_bytes().hash(&mut hasher);
        ddl.commit_ms.hash(&mut hasher);
    }
    hasher.finish()
}

impl KafkaReader {
    /// Sees to the partitions that cannot go on by themselves.
    pub(super) fn decide(&mut self) -> Result<()> {
        if !self.decided.is_empty() {
            return Ok(());
        }
        for slot in &self.slots {
            if let Some(Stop::Bad(reason)) = &slot.stop {
                return Err(slot.bad_record(reason));
            }
        }
        if self.slots.iter().any(|s| matches!(s.stop, Some(Stop::Evolve))) {
            self.decide_evolution();
        }
        if self.decided.is_empty() {
            self.decide_ddl()?;
        }
        Ok(())
    }

    /// Looks at all that has arrived, so that what is there takes one step and not many.
    fn decide_evolution(&mut self) {
        let mut survey = Survey::default();
        let mut cache = std::mem::take(&mut self.survey_cache);
        for (at, slot) in self.slots.iter().enumerate() {
            let watermark = self.watermark(at);
            let mut from = slot.at;
            for chunk in &slot.chunks {
                let (shapes, settings) = (&self.shapes, &self.settings);
                let cache = &mut cache;
                if !survey.of_chunk(chunk, from, shapes, settings, watermark, cache) {
                    break;
                }
                from = 0;
            }
        }
        self.survey_cache = cache;
        let plans = survey.plans();
        if plans.is_empty() {
            // The tables are as wide as they get: the record itself is at fault.
            for slot in &mut self.slots {
                if matches!(slot.stop, Some(Stop::Evolve)) {
                    slot.stop = None;
                    slot.refused = Some("its table cannot be made to take it".into());
                }
            }
            return;
        }
        let commit_ms = self.clock.now_ms();
        for plan in plans {
            self.push_decision(plan, commit_ms);
        }
        self.checkpoints.request();
    }

    /// The earliest DDL that a partition stands at; the others go on until they have passed it.
    fn decide_ddl(&mut self) -> Result<()> {
        let mut first: Option<(u64, Order, i64, Vec<Ddl>)> = None;
        for at in 0..self.slots.len() {
            let Some(Stop::Ddl(all, order, known_ms)) = &self.slots[at].stop else { continue };
            let number = number_of(all);
            if self.statements.contains(&number) {
                self.slots[at].pass_record();
                continue;
            }
            if first.as_ref().is_none_or(|(_, known, ..)| order < known) {
                first = Some((number, *order, *known_ms, all.clone()));
            }
        }
        let Some((statement, order, known_ms, all)) = first else {
            self.barrier = None;
            return Ok(());
        };
        if self.barrier.as_ref().is_none_or(|b| b.statement != statement) {
            self.barrier = Some(Barrier { statement });
            let mut shapes = (*self.shapes).clone();
            shapes.holds.clear();
            for ddl in &all {
                shapes.holds.insert(ddl.table.clone(), order);
                if let DdlChange::Rename { to } = &ddl.change {
                    shapes.holds.insert(to.clone(), order);
                }
            }
            self.shapes = Arc::new(shapes);
        }
        // What a worker still makes of rows that began before the hold is thrown away: see `is_current`.
        if !self.slots.iter().all(|slot| slot.has_passed(order, known_ms)) {
            return Ok(());
        }
        self.statements.push_back(statement);
        if self.statements.len() > STATEMENTS {
            self.statements.pop_front();
        }
        // A statement's effects follow each other.
        let mut shapes = (*self.shapes).clone();
        for ddl in &all {
            let shape = shapes.tables.get(&ddl.table);
            let plan = of_ddl(shape.map(|s| &**s), &ddl.table, &ddl.change, order, &self.settings);
            if let Some(plan) = plan {
                let decision = self.push_decision(plan, order.commit_ms);
                install(&mut shapes, &decision);
            }
        }
        if self.decided.is_empty() {
            self.lift_holds();
            return self.decide_ddl();
        }
        self.checkpoints.request();
        Ok(())
    }

    pub(super) fn push_decision(&mut self, plan: Plan, commit_ms: i64) -> Decision {
        self.last_step.lo += 1;
        let position: Position = self.last_step;
        let Plan { table, mut changes, before, after } = plan;
        if self.resets {
            for change in changes.iter_mut().filter(|c| **c == SchemaChange::CreateTable) {
                *change = SchemaChange::ResetTable;
            }
        }
        let schema = after.as_ref().map(|state| state.schema.clone());
        let event = (!changes.is_empty()).then(|| SchemaEvent {
            id: DdlId { table: table.clone(), position },
            table: table.clone(),
            changes,
            before,
            after: schema,
            position,
            commit_ms,
        });
        let decision = Decision { event, after, table };
        self.decided.push(decision.clone());
        self.decided_in = None;
        decision
    }

    /// The checkpoint that has the decisions is complete.
    pub(super) fn take_steps(&mut self) {
        self.tell_progress();
        let mut shapes = (*self.shapes).clone();
        for decision in std::mem::take(&mut self.decided) {
            install(&mut shapes, &decision);
            if let Some(event) = decision.event {
                let what = event.changes.iter().map(|c| c.kind()).collect::<Vec<_>>().join(", ");
                tracing::info!(table = %event.table, "{what}");
                let target = Target::Hash(event.table.stable_hash());
                self.out.push((target, StreamRecord::Schema(event)));
            }
        }
        self.shapes = Arc::new(shapes);
        self.decided_in = None;
        self.ready = false;
        self.lift_holds();
    }

    fn lift_holds(&mut self) {
        if !self.shapes.holds.is_empty() {
            let mut shapes = (*self.shapes).clone();
            shapes.holds.clear();
            self.shapes = Arc::new(shapes);
        }
        self.barrier = None;
        for slot in &mut self.slots {
            if matches!(slot.stop, Some(Stop::Evolve | Stop::Held(_))) {
                slot.stop = None;
            }
        }
    }

    /// True for rows that were decoded under what the tables are now.
    pub(super) fn is_current(&self, shapes: &Arc<Shapes>, tables: &[TableId]) -> bool {
        Arc::ptr_eq(shapes, &self.shapes)
            || tables.iter().all(|table| {
                let same = match (shapes.tables.get(table), self.shapes.tables.get(table)) {
                    (Some(then), Some(now)) => Arc::ptr_eq(then, now),
                    _ => false,
                };
                same && !self.shapes.holds.contains_key(table)
            })
    }
}

fn install(shapes: &mut Shapes, decision: &Decision) {
    shapes.tables.remove(&decision.table);
    if let Some(state) = &decision.after {
        let shape = Shape::new(state.clone());
        shapes.tables.insert(shape.table.clone(), Arc::new(shape));
    }
}
