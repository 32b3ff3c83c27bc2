//! What happens in a shop: orders, payments, corrections, and now and then a change of the schema.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use lakeward_testkit::case_run::Random;
use lakeward_testkit::server::Server;

use super::shop::DATABASE;

/// Statements of one change of the schema, and what it is.
pub const SCHEMA_CHANGES: &[(&str, &str)] = &[
    (
        "a new column with a default, which the old rows get too",
        "ALTER TABLE customers ADD COLUMN tier VARCHAR(10) NOT NULL DEFAULT 'basic' AFTER name",
    ),
    ("a renamed column", "ALTER TABLE orders RENAME COLUMN note TO remark"),
    (
        "wider types, the key among them",
        "ALTER TABLE payments MODIFY amount DOUBLE, MODIFY method VARCHAR(40), MODIFY order_id BIGINT NOT NULL",
    ),
    ("a dropped column", "ALTER TABLE suppliers DROP COLUMN rating"),
    (
        "other labels in another order",
        "ALTER TABLE products MODIFY status ENUM('retired','active','draft','banned') NOT NULL",
    ),
    (
        "a new table with rows",
        "CREATE TABLE coupons(code VARCHAR(12) PRIMARY KEY, percent TINYINT UNSIGNED NOT NULL) \
         AS SELECT CONCAT('C', id) code, id % 60 percent FROM regions",
    ),
    ("an emptied table", "TRUNCATE TABLE audit_log"),
];

/// What the clients have done.
#[derive(Debug, Default)]
pub struct Done {
    pub transactions: AtomicU64,
    pub rows: AtomicU64,
}

/// One client, until it is told to stop. Clients use keys of their own, so that they never wait for each other long.
pub fn client(server: &Server, number: u64, stop: &AtomicBool, done: &Done) -> Result<()> {
    let mut session = server.session(Some(DATABASE))?;
    let mut random = Random::new(&format!("client {number}"));
    let mut order = number * 10_000_000;
    while !stop.load(Ordering::Relaxed) {
        order += 1;
        let customer = 1 + random.below(20_000);
        let product = 1 + random.below(5_000);
        let old = 1 + random.below(20_000);
        session.run("BEGIN")?;
        session.run(&format!(
            "INSERT INTO orders(id, customer, state, total) VALUES({order}, {customer}, 'new', {}.99)",
            random.below(5000)
        ))?;
        session.run(&format!(
            "INSERT INTO order_items VALUES({order}, 1, {product}, 2, 19.90), ({order}, 2, {}, 1, 5.00)",
            product + 1
        ))?;
        session.run(&format!(
            "UPDATE inventory SET on_hand = on_hand - 3, counted = NOW() WHERE product = {product}"
        ))?;
        session.run("COMMIT")?;
        let mut rows = 3 + 4;
        match random.below(6) {
            0 => {
                session.run(&format!("UPDATE orders SET state='paid' WHERE id={order}"))?;
                session.run(&format!(
                    "INSERT INTO payments VALUES({order}, {order}, 'card', 1e0/3, '00:01:30.25')"
                ))?;
                rows += 2;
            }
            1 => {
                session.run(&format!("DELETE FROM order_items WHERE order_id={old}"))?;
                session.run(&format!("DELETE FROM orders WHERE id={old}"))?;
                rows += 3;
            }
            2 => {
                session.run(&format!("UPDATE customers SET vip = NOT vip WHERE id={customer}"))?;
                rows += 1;
            }
            3 => {
                session.run(&format!(
                    "INSERT INTO audit_log VALUES(NOW(), 'client{number}', 'order')"
                ))?;
                rows += 1;
            }
            // A key that moves.
            4 => {
                session.run(&format!("UPDATE orders SET id = id + 5000000 WHERE id={order}"))?;
                rows += 1;
            }
            _ => {
                session.run("BEGIN")?;
                session.run(&format!("DELETE FROM customers WHERE id={customer}"))?;
                session.run("ROLLBACK")?;
            }
        }
        done.transactions.fetch_add(1, Ordering::Relaxed);
        done.rows.fetch_add(rows, Ordering::Relaxed);
        // Traffic, not a load test: the benchmark does that.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
