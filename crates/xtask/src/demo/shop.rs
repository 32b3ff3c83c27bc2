//! A shop of a dozen tables, filled by the server itself: the same rows every time.

use anyhow::Result;
use lakeward_testkit::sql::Session;

pub const DATABASE: &str = "shop";

/// Name, columns, and the rows of a shop of a million rows; `{i}` is the row's number, from 1.
struct Table {
    name: &'static str,
    columns: &'static str,
    select: &'static str,
    rows: u64,
}

const TABLES: &[Table] = &[
    Table {
        name: "regions",
        columns: "id INT PRIMARY KEY, name VARCHAR(40) NOT NULL",
        select: "{i}, CONCAT('Region ', {i})",
        rows: 20,
    },
    Table {
        name: "categories",
        columns: "id INT PRIMARY KEY, parent INT, name VARCHAR(60) NOT NULL",
        select: "{i}, NULLIF({i} DIV 10, 0), CONCAT('Category ', {i})",
        rows: 200,
    },
    Table {
        name: "suppliers",
        columns: "id INT PRIMARY KEY, region INT NOT NULL, name VARCHAR(80) NOT NULL, rating FLOAT",
        select: "{i}, 1 + {i} % 20, CONCAT('Supplier ', {i}), ({i} * 37 % 50) / 10",
        rows: 2_000,
    },
    Table {
        name: "warehouses",
        columns: "code CHAR(4) PRIMARY KEY, region INT NOT NULL, opened DATE NOT NULL",
        select: "CONCAT('W', LPAD({i}, 3, '0')), 1 + {i} % 20, '2015-01-01' + INTERVAL {i} * 31 DAY",
        rows: 20,
    },
    Table {
        name: "products",
        columns: "id INT PRIMARY KEY, category INT NOT NULL, supplier INT NOT NULL, \
                  name VARCHAR(120) NOT NULL, price DECIMAL(10,2) NOT NULL, \
                  status ENUM('draft','active','retired') NOT NULL, tags SET('new','sale','eco'), \
                  weight_grams MEDIUMINT UNSIGNED, picture VARBINARY(64)",
        select: "{i}, 1 + {i} % 200, 1 + {i} % 2000, CONCAT('Product ', {i}, ' ✓'), \
                 1 + ({i} * 7919 % 100000) / 100, 1 + {i} % 3, {i} % 8, {i} * 13 % 50000, \
                 UNHEX(LEFT(SHA2({i}, 256), 32))",
        rows: 20_000,
    },
    Table {
        name: "customers",
        columns: "id BIGINT UNSIGNED PRIMARY KEY, email VARCHAR(120) NOT NULL, name VARCHAR(80), \
                  region INT NOT NULL, born DATE, vip BOOLEAN NOT NULL, \
                  joined DATETIME(3) NOT NULL, preferences JSON",
        select: "{i}, CONCAT('c', {i}, '@example.com'), IF({i} % 11, CONCAT('Customer ', {i}), NULL), \
                 1 + {i} % 20, '1950-01-01' + INTERVAL {i} % 20000 DAY, {i} % 17 = 0, \
                 '2020-01-01' + INTERVAL {i} * 777 SECOND, CONCAT('{\"lang\":\"', ELT(1 + {i} % 3, 'en', 'zh', 'de'), '\"}')",
        rows: 80_000,
    },
    Table {
        name: "addresses",
        columns: "customer BIGINT UNSIGNED, kind VARCHAR(8), street VARCHAR(100), city VARCHAR(50), \
                  PRIMARY KEY(customer, kind)",
        select: "1 + ({i} - 1) DIV 2, IF({i} % 2, 'home', 'work'), CONCAT({i} % 300, ' Main Street'), \
                 ELT(1 + {i} % 4, 'Zürich', '北京', 'Lisboa', 'Kraków')",
        rows: 120_000,
    },
    Table {
        name: "inventory",
        columns: "product INT, warehouse CHAR(4), on_hand INT NOT NULL, counted TIMESTAMP NULL, \
                  PRIMARY KEY(product, warehouse)",
        select: "1 + ({i} - 1) DIV 4, CONCAT('W', LPAD(1 + {i} % 20, 3, '0')), {i} * 31 % 900, \
                 FROM_UNIXTIME(1700000000 + {i})",
        rows: 80_000,
    },
    Table {
        name: "orders",
        columns: "id BIGINT PRIMARY KEY, customer BIGINT UNSIGNED NOT NULL, \
                  placed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), \
                  state VARCHAR(10) NOT NULL, total DECIMAL(12,2) NOT NULL, note TEXT",
        select: "{i}, 1 + {i} * 48271 % 80000, FROM_UNIXTIME(1700000000 + {i} * 60), \
                 ELT(1 + {i} % 4, 'new', 'paid', 'shipped', 'done'), ({i} * 7919 % 1000000) / 100, \
                 IF({i} % 9, NULL, CONCAT('Note ', {i}))",
        rows: 180_000,
    },
    Table {
        name: "order_items",
        columns: "order_id BIGINT, line SMALLINT, product INT NOT NULL, quantity INT UNSIGNED NOT NULL, \
                  price DECIMAL(10,2) NOT NULL, PRIMARY KEY(order_id, line)",
        select: "1 + ({i} - 1) DIV 2, 1 + {i} % 2, 1 + {i} * 48271 % 20000, 1 + {i} % 5, \
                 1 + ({i} * 7919 % 100000) / 100",
        rows: 360_000,
    },
    Table {
        name: "payments",
        columns: "id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL, method VARCHAR(12) NOT NULL, \
                  amount DOUBLE NOT NULL, took TIME(2)",
        select: "{i}, {i}, ELT(1 + {i} % 3, 'card', 'transfer', 'cash'), ({i} * 7919 % 1000000) / 100, \
                 SEC_TO_TIME({i} % 90)",
        rows: 120_000,
    },
    Table {
        name: "audit_log",
        columns: "at DATETIME NOT NULL, actor VARCHAR(20), action VARCHAR(40) NOT NULL",
        select: "'2024-01-01' + INTERVAL {i} MINUTE, IF({i} % 5, CONCAT('user', {i} % 50), NULL), \
                 ELT(1 + {i} % 3, 'login', 'export', 'logout')",
        rows: 18_000,
    },
];

/// Fills the shop with about this many thousand rows; returns the exact number.
pub fn fill(session: &mut Session, thousand_rows: u64) -> Result<u64> {
    session.run(&format!("CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"))?;
    session.run(&format!("USE {DATABASE}"))?;
    let mut total = 0;
    for table in TABLES {
        let rows = (table.rows * thousand_rows / 1000).max(table.rows.min(20));
        session.run(&format!("CREATE TABLE {}({})", table.name, table.columns))?;
        let select = table.select.replace("{i}", "seq");
        session.run(&format!("INSERT INTO {} SELECT {select} FROM seq_1_to_{rows}", table.name))?;
        total += rows;
    }
    Ok(total)
}

pub fn tables() -> usize {
    TABLES.len()
}
