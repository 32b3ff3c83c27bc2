//! A real server, the real program, and the lake read back through `lakeward query`.

use std::path::Path;

use lakeward_testkit::lakeward::{Lakeward, Pipeline};
use lakeward_testkit::mariadb;
use lakeward_testkit::server::Server;
use lakeward_testkit::sql::Session;
use serde_json::json;

fn program(server: &Server, name: &str) -> Lakeward {
    let tables = format!("{name}.\\.*");
    Lakeward::in_temporary_folder(|folder: &Path| Pipeline::new(name, server, &tables, folder))
        .expect("folder")
}

fn query(lakeward: &Lakeward, format: &str, sql: &str) -> String {
    let (code, said) =
        lakeward.command(&["query", "pipeline.yaml", sql, "--format", format]).expect("runs");
    assert_eq!(code, 0, "{said}");
    // The last line break is cut off on the way.
    format!("{said}\n")
}

fn database(server: &Server, name: &str) -> Session {
    let mut session = server.session(None).expect("session");
    session.run(&format!("CREATE DATABASE {name}")).expect("database");
    session.run(&format!("USE {name}")).expect("database");
    session
}

#[test]
fn a_database_is_copied_followed_and_queried() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut session = database(&server, "shop");
    let setup = [
        "CREATE TABLE orders(id INT PRIMARY KEY, item VARCHAR(40), price DECIMAL(12,4), at DATETIME(6), ts TIMESTAMP NULL, \
         raw VARBINARY(8))",
        "SET time_zone = '+02:00'",
        "INSERT INTO orders VALUES (1,'a,\"b\"',1.5,'2024-02-29 12:00:00.123456','2024-02-29 14:00:00',x'00ff'),\
         (2,'',-0.0001,NULL,NULL,NULL),(3,NULL,99999999.9999,NULL,NULL,x'')",
        "CREATE TABLE `Odd name-1`(`select` INT PRIMARY KEY, `e.f` INT, `userName` TEXT)",
        "INSERT INTO `Odd name-1` VALUES (1, 5, 'x')",
        "CREATE TABLE bare(v INT)",
        "INSERT INTO bare VALUES (7),(7)",
    ];
    session.run_all(setup).expect("setup");

    let mut lakeward = program(&server, "shop");
    let (code, said) = lakeward.command(&["check", "pipeline.yaml"]).expect("runs");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("shop.orders") && said.contains("MariaDB"), "{said}");
    assert!(said.contains("does not exist yet"), "{said}");
    let left: Vec<_> = std::fs::read_dir(lakeward.folder()).expect("folder").flatten().collect();
    assert_eq!(left.len(), 1, "looking leaves nothing behind: {left:?}");
    lakeward.start().expect("starts");
    lakeward.wait_streaming().expect("streaming");
    session
        .run_all([
            "UPDATE orders SET item = 'c' WHERE id = 2",
            "DELETE FROM orders WHERE id = 3",
            "DELETE FROM bare LIMIT 1",
        ])
        .expect("live");
    lakeward.wait_caught_up().expect("caught up");

    let csv = query(&lakeward, "csv", "select * from shop.orders order by id");
    assert_eq!(
        csv,
        "id,item,price,at,ts,raw\n\
         1,\"a,\"\"b\"\"\",1.5000,2024-02-29 12:00:00.123456,2024-02-29 12:00:00+00:00,00ff\n\
         2,c,-0.0001,,,\n"
    );
    let json = query(&lakeward, "json", "select id, price, at, ts, raw from orders where id = 1");
    assert_eq!(
        json,
        "{\"id\":1,\"price\":1.5000,\"at\":\"2024-02-29T12:00:00.123456\",\"ts\":\"2024-02-29T12:00:00+00:00\",\
         \"raw\":\"00ff\"}\n"
    );
    assert!(query(&lakeward, "table", "select count(*) as n from bare").contains("| 1 |"));
    let odd = query(&lakeward, "csv", "select \"select\", \"e.f\", userName from \"Odd name-1\"");
    assert_eq!(odd, "select,e.f,userName\n1,5,x\n");

    // A new column can be read before any row has come under it.
    session.run("ALTER TABLE orders ADD COLUMN note INT").expect("alter");
    lakeward.wait_caught_up().expect("caught up");
    let csv = query(&lakeward, "csv", "select id, note from orders order by id");
    assert_eq!(csv, "id,note\n1,\n2,\n");

    // A column that was widened after its rows were written is filtered right.
    session
        .run_all([
            "ALTER TABLE orders MODIFY id BIGINT",
            "INSERT INTO orders(id) VALUES (5000000000)",
        ])
        .expect("alter");
    lakeward.wait_caught_up().expect("caught up");
    let csv = query(&lakeward, "csv", "select id from orders where id between 1 and 2 order by id");
    assert_eq!(csv, "id\n1\n2\n");
    let exact = "select count(*) as n from orders where price = -0.0001";
    assert_eq!(query(&lakeward, "csv", exact), "n\n1\n");

    let (code, said) =
        lakeward.command(&["query", "pipeline.yaml", "select 1 from ordrs"]).expect("runs");
    assert_eq!(code, 1);
    assert!(said.contains("near is shop.orders"), "{said}");
    let (code, said) =
        lakeward.command(&["query", "pipeline.yaml", "drop table orders"]).expect("runs");
    assert!(code == 1 && said.starts_with("error: "), "{said}");

    lakeward.stop().expect("stops with code 0");
    session.run("INSERT INTO orders(id) VALUES (6000000000)").expect("while it is off");
    let (code, said) =
        lakeward.command(&["run", "pipeline.yaml", "--until", "caught-up"]).expect("runs");
    assert_eq!(code, 0, "{said}");
    assert_eq!(query(&lakeward, "csv", "select max(id) as m from orders"), "m\n6000000000\n");
}

#[test]
fn check_refuses_what_run_would_refuse() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut session = database(&server, "shards");
    session
        .run_all([
            "CREATE TABLE o_1(id INT PRIMARY KEY)",
            "CREATE TABLE o_2(id INT PRIMARY KEY)",
            "CREATE TABLE alone(id INT PRIMARY KEY)",
            "INSERT INTO o_1 VALUES (1)",
            "INSERT INTO o_2 VALUES (1)",
        ])
        .expect("setup");
    let lakeward = program(&server, "shards");
    let plain = Pipeline::new("shards", &server, r"shards.\.*", lakeward.folder());
    let check = |pipeline: &Pipeline| {
        lakeward.configure(pipeline).expect("file");
        lakeward.command(&["check", "pipeline.yaml"]).expect("runs")
    };
    let mut route = json!({ "source-table": r"shards.o_\.*", "sink-table": "lake.orders" });
    let (code, said) = check(&plain.clone().set("route", "", json!([route])));
    assert!(code == 1 && said.contains("shard-key"), "{said}");
    assert!(said.contains("shards.o_1, shards.o_2"), "{said}");
    route["shard-key"] = "source-table".into();
    let merged = plain.set("route", "", json!([route]));
    let (code, said) = check(&merged);
    assert!(code == 0 && said.contains("lake.orders") && said.contains("goes to"), "{said}");
    let (code, said) =
        lakeward.command(&["run", "pipeline.yaml", "--until", "caught-up"]).expect("runs");
    assert_eq!(code, 0, "{said}");
    assert_eq!(query(&lakeward, "csv", "select count(*) as n from lake.orders"), "n\n2\n");

    // Another pipeline must neither write into this one's tables nor go on from its state.
    let state = lakeward.folder().join("another").display().to_string();
    let other = merged.set("pipeline", "name", "another");
    let (code, said) = check(&other.clone().set("pipeline", "state.dir", state));
    assert!(code == 1 && said.contains("is the table of pipeline shards"), "{said}");
    let (code, said) = check(&other);
    assert!(code == 1 && said.contains("state.dir"), "{said}");
}

#[test]
fn lost_state_is_loud_and_resnapshot_cures_it() {
    let Some(server) = mariadb::start_or_skip() else { return };
    let mut session = database(&server, "lost");
    session
        .run_all(["CREATE TABLE t(id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
        .expect("setup");
    let lakeward = program(&server, "lost");
    let bounded = ["run", "pipeline.yaml", "--until", "caught-up"];
    let (code, said) = lakeward.command(&bounded).expect("runs");
    assert_eq!(code, 0, "{said}");
    session.run("INSERT INTO t VALUES (2)").expect("insert");
    std::fs::remove_dir_all(lakeward.folder().join("state")).expect("state is there");

    let (code, said) = lakeward.command(&bounded).expect("runs");
    assert_eq!(code, 1, "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.contains("--resnapshot"), "{said}");
    assert_eq!(query(&lakeward, "csv", "select count(*) as n from t"), "n\n1\n");

    let anew = ["run", "pipeline.yaml", "--until", "caught-up", "--resnapshot"];
    let (code, said) = lakeward.command(&anew).expect("runs");
    assert_eq!(code, 0, "{said}");
    assert_eq!(query(&lakeward, "csv", "select count(*) as n from t"), "n\n2\n");
}
