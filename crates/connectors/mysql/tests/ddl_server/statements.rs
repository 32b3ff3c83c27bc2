//! Random CREATE, ALTER and INSERT statements. Many are refused by the server; those are passed over.

use lakeward_mysql::ddl::Flavor;
use lakeward_mysql::model::{MysqlTable, MysqlType};
use lakeward_testkit::sql::quote;

/// A seeded generator, small enough to be read at a glance (xorshift64*).
pub struct Statements {
    state: u64,
    flavor: Flavor,
    names: u32,
}

/// A type, with defaults that fit it.
const TYPES: &[(&str, &[&str])] = &[
    ("TINYINT", &["5", "-7", "'12'", "TRUE"]),
    ("TINYINT(1)", &["1"]),
    ("BOOL", &["FALSE"]),
    ("SMALLINT UNSIGNED", &["65535"]),
    ("MEDIUMINT", &["-8388608"]),
    ("MIDDLEINT UNSIGNED ZEROFILL", &["7"]),
    ("INT", &["17", "-1", "+3", "0x10", "1.5e1"]),
    ("INT(11)", &["'00042'"]),
    ("INT UNSIGNED", &["4294967295"]),
    ("BIGINT", &["-9223372036854775808"]),
    ("INT8 UNSIGNED", &["18446744073709551615"]),
    ("DECIMAL", &["7"]),
    ("DEC(10,2)", &["1.005", "-3.1", "'2.50'"]),
    ("NUMERIC(20,4) UNSIGNED", &["12345.6789"]),
    ("DECIMAL(12,2)", &["0.1"]),
    ("DECIMAL(50,10)", &["1.25"]),
    ("FLOAT", &["0.07", "1e10"]),
    ("FLOAT(7,3)", &["1.2345"]),
    ("FLOAT(30)", &["0.1"]),
    ("REAL", &["-2.5"]),
    ("DOUBLE(10,2)", &["1.239"]),
    ("DOUBLE PRECISION UNSIGNED", &["3"]),
    ("BIT", &["1", "b'0'"]),
    ("BIT(9)", &["b'100000001'", "5"]),
    ("BIT(64)", &["x'FFFFFFFFFFFFFFFF'"]),
    ("YEAR", &["2024", "'99'"]),
    ("DATE", &["'2024-02-29'", "'1969-12-31'"]),
    ("TIME", &["'-12:34:56'", "'838:59:59'", "'1:2'"]),
    ("TIME(3)", &["'00:00:01.2345'"]),
    ("DATETIME", &["'2024-01-02 03:04:05'", "CURRENT_TIMESTAMP", "NOW() ON UPDATE NOW()"]),
    ("DATETIME(6)", &["'1000-01-01 00:00:00.000001'", "CURRENT_TIMESTAMP(6)"]),
    ("DATETIME(2)", &["'2024-01-02 03:04:05.678'"]),
    ("TIMESTAMP", &["'2024-01-02 03:04:05'", "CURRENT_TIMESTAMP"]),
    ("TIMESTAMP(3)", &["CURRENT_TIMESTAMP(3)"]),
    ("TIMESTAMP NULL", &["NULL"]),
    ("CHAR(5)", &["'ab '", "'é'", "''"]),
    ("CHAR", &["'x'"]),
    ("NCHAR(4)", &["'n'"]),
    ("CHAR(3) BYTE", &["'a'"]),
    ("VARCHAR(20)", &["'dd'", "'it''s'", "'trail  '", "x'4142'", "5"]),
    ("VARCHAR(10) CHARACTER SET utf8mb4", &["'é😀'"]),
    ("VARCHAR(9) CHARSET gbk", &["'中'"]),
    ("VARCHAR(7) COLLATE latin1_bin", &["'l'"]),
    ("VARCHAR(8) ASCII", &["'a'"]),
    ("VARCHAR(8) UNICODE", &["'u'"]),
    ("CHARACTER VARYING(30)", &["'vary'"]),
    ("NATIONAL VARCHAR(10)", &["'nv'"]),
    ("TINYTEXT", &[]),
    ("TEXT", &[]),
    ("TEXT(100)", &[]),
    ("TEXT(20000) CHARACTER SET utf8mb4", &[]),
    ("MEDIUMTEXT BINARY", &[]),
    ("LONG VARCHAR", &[]),
    ("LONGTEXT CHARSET utf8mb3", &[]),
    ("BINARY(4)", &["'a'", "x'0041'"]),
    ("VARBINARY(6)", &["'ab'", "x'0001'"]),
    ("TINYBLOB", &[]),
    ("BLOB(300)", &[]),
    ("LONG VARBINARY", &[]),
    ("ENUM('low','High','mid')", &["'low'", "'HIGH'"]),
    ("ENUM('mid','low')", &["'mid'"]),
    ("ENUM('a','b','it''s','c,d') CHARACTER SET latin1", &["'it''s'"]),
    ("SET('x','y','z')", &["'y,x'", "''"]),
    ("SET('z','x')", &["'x'"]),
    ("POINT", &[]),
    ("GEOMETRY", &[]),
];

const MARIADB_TYPES: &[(&str, &[&str])] = &[
    ("JSON", &["'{}'"]),
    ("UUID", &["'123E4567-E89B-12D3-A456-426655440000'"]),
    ("INET4", &["'10.0.0.1'"]),
    ("INET6", &["'::1'"]),
    ("VARCHAR(40) COMPRESSED", &["'c'"]),
    ("BLOB", &["'b'"]),
    ("TEXT", &["'t'"]),
    ("VARCHAR(36)", &["uuid()"]),
    ("INT", &["(1 + 2)", "(5)"]),
];

const MYSQL_TYPES: &[(&str, &[&str])] = &[
    ("JSON", &["('{}')", "(JSON_ARRAY())"]),
    ("VECTOR(3)", &[]),
    ("TEXT", &["('t')"]),
    ("BLOB", &["('b')"]),
    ("VARCHAR(36)", &["(uuid())"]),
    ("INT", &["(1 + 2)", "(5)"]),
];

/// Values for INSERT, of every kind; a type takes those that it can.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "300",
    "70000",
    "'a'",
    "'B'",
    "'low'",
    "'High'",
    "'mid'",
    "'x'",
    "'x,z'",
    "'y'",
    "'trail '",
    "'é'",
    "1.25",
    "0.07",
    "'2024-01-02 03:04:05.678901'",
    "'2024-05-06'",
    "'10:11:12.345'",
    "NULL",
    "x'0001'",
    "'it''s'",
    "''",
    "2024",
    "'{}'",
    "'::1'",
    "'10.0.0.9'",
    "'123e4567-e89b-12d3-a456-426655440000'",
];

impl Statements {
    pub fn new(seed: u64, flavor: Flavor) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, flavor, names: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'x>(&mut self, from: &[&'x str]) -> &'x str {
        from[self.below(from.len())]
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        let odd = ["", " x", "`", "É", "key"];
        let tail = self.pick(&odd);
        format!("c{}{tail}", self.names)
    }

    pub fn create(&mut self) -> String {
        let mut parts = vec!["id INT NOT NULL".to_owned()];
        for _ in 0..self.below(4) {
            let name = self.new_name();
            parts.push(format!("{} {}", quote(&name), self.definition()));
        }
        if !self.one_in(4) {
            parts.push("PRIMARY KEY (id)".into());
        }
        let options =
            ["", " DEFAULT CHARSET=utf8mb4", " CHARSET latin1 COMMENT 'c'", " COLLATE=utf8mb3_bin"];
        format!("CREATE TABLE t ({}){}", parts.join(", "), self.pick(&options))
    }

    fn definition(&mut self) -> String {
        let own = match self.flavor {
            Flavor::MariaDb => MARIADB_TYPES,
            Flavor::MySql => MYSQL_TYPES,
        };
        let at = self.below(TYPES.len() + own.len());
        let (column_type, defaults) = TYPES.get(at).unwrap_or_else(|| &own[at - TYPES.len()]);
        let mut definition = (*column_type).to_owned();
        if self.one_in(12) {
            definition += " AS (NULL)";
            definition += self.pick(&["", " VIRTUAL", " STORED"]);
            return definition;
        }
        let null = self.pick(&["", "", " NOT NULL", " NULL"]);
        let default = match defaults.len() {
            n if n > 0 && !self.one_in(3) => format!(" DEFAULT {}", self.pick(defaults)),
            _ if self.one_in(6) => " DEFAULT NULL".into(),
            _ => String::new(),
        };
        definition +=
            &if self.one_in(2) { format!("{null}{default}") } else { format!("{default}{null}") };
        if self.one_in(6) {
            definition += " COMMENT 'it''s, (new)'";
        }
        if self.one_in(12) {
            definition += " INVISIBLE";
        }
        if self.one_in(15) {
            definition += " UNIQUE";
        }
        definition
    }

    fn place(&mut self, table: &MysqlTable) -> String {
        match self.below(4) {
            0 => " FIRST".into(),
            1 => format!(" AFTER {}", self.column(table)),
            _ => String::new(),
        }
    }

    fn column(&mut self, table: &MysqlTable) -> String {
        let at = self.below(table.columns.len());
        quote(&table.columns[at].name)
    }

    pub fn alter(&mut self, table: &MysqlTable) -> String {
        let clauses: Vec<String> = (0..1 + self.below(3)).map(|_| self.clause(table)).collect();
        format!("ALTER TABLE t {}", clauses.join(", "))
    }

    fn clause(&mut self, table: &MysqlTable) -> String {
        match self.below(22) {
            0..=5 => {
                let name = quote(&self.new_name());
                format!("ADD COLUMN {name} {}{}", self.definition(), self.place(table))
            }
            6 => format!(
                "ADD ({} {}, z{} INT)",
                quote(&self.new_name()),
                self.definition(),
                self.names
            ),
            7..=8 => format!("DROP COLUMN {}", self.column(table)),
            9..=12 => {
                let column = self.column(table);
                format!("MODIFY {column} {}{}", self.definition(), self.place(table))
            }
            13..=14 => {
                let (column, name) = (self.column(table), quote(&self.new_name()));
                format!("CHANGE {column} {name} {}{}", self.definition(), self.place(table))
            }
            15 => {
                let (from, to) = (self.column(table), quote(&self.new_name()));
                format!("RENAME COLUMN {from} TO {to}")
            }
            16 => {
                let (a, b) = (self.column(table), self.column(table));
                format!("RENAME COLUMN {a} TO {b}, RENAME COLUMN {b} TO {a}")
            }
            17 => {
                let column = self.column(table);
                let default = self.pick(&["SET DEFAULT 3", "SET DEFAULT 'a'", "DROP DEFAULT"]);
                format!("ALTER {column} {default}")
            }
            18 => {
                let charset = self.pick(&["utf8mb4", "latin1", "utf8mb3", "binary"]);
                let verb = self.pick(&["CONVERT TO CHARACTER SET", "DEFAULT CHARSET ="]);
                format!("{verb} {charset}")
            }
            19 => format!("COMMENT 'comment {}'", self.names),
            20 => "DROP PRIMARY KEY".into(),
            _ => {
                let column = self.column(table);
                self.pick(&["ADD PRIMARY KEY", "ADD INDEX", "ADD UNIQUE"]).to_owned()
                    + &format!(" ({column})")
            }
        }
    }

    /// A row for the table; every column that needs one gets a value that it may or may not take.
    pub fn insert(&mut self, table: &MysqlTable) -> Option<String> {
        let settable: Vec<_> = table.columns.iter().filter(|c| !c.generated).collect();
        if settable.is_empty() {
            return None;
        }
        let names: Vec<String> = settable.iter().map(|c| quote(&c.name)).collect();
        let values: Vec<&str> = settable
            .iter()
            .map(|column| match column.column_type {
                MysqlType::Geometry => "POINT(1, 2)",
                MysqlType::Vector { .. } => "x'000000000000803F00000040'",
                _ => self.pick(VALUES),
            })
            .collect();
        Some(format!("INSERT IGNORE INTO t ({}) VALUES ({})", names.join(", "), values.join(", ")))
    }
}
