//! Transactions, positions and session state as the recorded events tell them.

use lakeward_core::ErrorKind;
use lakeward_mysql::binlog::{
    DecoderState, EventBody, MariaDbGtidEvent, MySqlGtidSet, XaId, parse_event,
};

use crate::recorded::Recording;

#[test]
fn mysql_transactions_have_their_gtids() {
    let recording = Recording::load("mysql-gtid");
    let mut gtids = Vec::new();
    let mut prepared = Vec::new();
    let mut before = None;
    let mut queries = Vec::new();
    recording.each_event(|event| match event.body {
        EventBody::MySqlGtid(event) => {
            assert!(event.commit_us > 1_700_000_000_000_000, "{event:?}");
            assert_eq!(event.original_commit_us, event.commit_us);
            assert!(event.transaction_bytes > 0);
            gtids.push(event.gtid.unwrap());
        }
        EventBody::PreviousGtids(set) => before = Some(set),
        EventBody::XaPrepare(xa) => prepared.push(xa),
        EventBody::Query(query) => queries.push(query.text().unwrap().into_owned()),
        _ => {}
    });
    let tags: Vec<_> = gtids.iter().map(|g| g.tag.as_str()).collect();
    assert_eq!(tags, ["", "blue", "blue", "", "red", "", "", ""]);
    assert_eq!(gtids[4].to_string(), "3e11fa47-71ca-11e1-9e33-c80aa9429562:red:77");
    assert_eq!(gtids[2].number, gtids[1].number + 1);
    let before = before.unwrap();
    assert!(!before.is_empty() && gtids.iter().all(|g| !before.contains(g)));
    assert_eq!(prepared.len(), 2);
    let id = |format_id, global: &[u8], branch: &[u8]| XaId {
        format_id,
        global: global.into(),
        branch: branch.into(),
    };
    assert_eq!((&prepared[0].id, prepared[0].one_phase), (&id(1, b"tx", b""), false));
    assert_eq!((&prepared[1].id, prepared[1].one_phase), (&id(7, b"one", b"branch"), true));
    assert!(queries.contains(&format!("XA COMMIT {}", prepared[0].id.sql())), "{queries:?}");
}

#[test]
fn mysql_previous_gtids_come_back_from_their_own_form() {
    let recording = Recording::load("mysql-images");
    let mut sets = Vec::new();
    recording.each_event(|event| {
        if let EventBody::PreviousGtids(set) = event.body {
            sets.push(set);
        }
    });
    let [set] = &sets[..] else { panic!("one set in a file") };
    assert!(set.to_string().contains(":blue:1-2") && set.to_string().contains(":red:77"), "{set}");
    assert_eq!(&set.to_string().parse::<MySqlGtidSet>().unwrap(), set);
    assert_eq!(&MySqlGtidSet::decode(&set.encode()).unwrap(), set);
}

#[test]
fn mariadb_groups_say_what_they_are() {
    let recording = Recording::load("mariadb-groups");
    let mut groups: Vec<MariaDbGtidEvent> = Vec::new();
    let mut described: Vec<Vec<String>> = Vec::new();
    let mut list = None;
    let mut statements = Vec::new();
    recording.each_event(|event| {
        let text = match &event.body {
            EventBody::MariaDbGtid(gtid) => {
                groups.push(gtid.clone());
                described.push(Vec::new());
                return;
            }
            EventBody::MariaDbGtidList(set) => {
                list = Some(set.clone());
                return;
            }
            EventBody::Statement(text) => {
                statements.push(String::from_utf8(text.to_vec()).unwrap());
                return;
            }
            EventBody::Query(query) => query.text().unwrap().into_owned(),
            EventBody::Xid(_) => "XID".to_owned(),
            EventBody::Rows(_) => "rows".to_owned(),
            EventBody::XaPrepare(_) => "prepare".to_owned(),
            _ => return,
        };
        if let Some(group) = described.last_mut() {
            group.push(text);
        }
    });
    let with =
        |text: &str| described.iter().position(|g| g.iter().any(|t| t.contains(text))).unwrap();
    let create = &groups[with("CREATE TABLE gr")];
    assert!(create.is_ddl() && create.is_standalone());
    let transaction = &groups[with("XID")];
    assert!(!transaction.is_standalone() && !transaction.is_ddl());
    let xa: Vec<_> = groups.iter().filter(|g| g.xa.is_some()).collect();
    assert_eq!(xa.len(), 4);
    assert!(
        xa[0].is_xa_prepare() && xa[1].is_xa_end() && xa[2].is_xa_prepare() && xa[3].is_xa_end()
    );
    let id = xa[0].xa.clone().unwrap();
    assert_eq!((id.format_id, &id.global[..], &id.branch[..]), (7, &b"tx"[..], &b"branch"[..]));
    assert!(described[with("XA ROLLBACK")].len() == 1);
    let starts: Vec<_> = groups.iter().filter(|g| g.is_alter_start()).collect();
    let ends: Vec<_> = groups.iter().filter(|g| g.is_alter_commit()).collect();
    assert_eq!((starts.len(), ends.len()), (1, 1));
    assert_eq!(ends[0].alter_started_at, Some(starts[0].gtid.sequence));
    let mut set = list.unwrap();
    assert!(groups.iter().all(|g| !set.contains(g.gtid)));
    groups.iter().for_each(|g| set.add(g.gtid));
    assert!(set.newest(7).is_some() && groups.iter().all(|g| set.contains(g.gtid)));
    assert!(statements.iter().any(|s| s.contains("INSERT INTO gr VALUES (1)")), "{statements:?}");
    // A group of a table without transactions ends with a QUERY and not with an XID.
    assert_eq!(described[with("COMMIT")].last().map(String::as_str), Some("COMMIT"));
}

#[test]
fn compressed_statements_are_read() {
    let mut found = 0;
    Recording::load("mariadb-compressed").each_event(|event| {
        if let EventBody::Query(query) = &event.body {
            let text = query.text().unwrap();
            found += usize::from(text.contains("some more to be sure'"));
            // NO_ENGINE_SUBSTITUTION, as the recording's session had it.
            assert_eq!(query.session.sql_mode(), Some(1 << 30));
        }
    });
    assert_eq!(found, 1);
}

fn event(event_type: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    bytes[4] = event_type;
    bytes[9..13].copy_from_slice(&(19 + body.len() as u32).to_le_bytes());
    bytes[17..19].copy_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A server with `encrypt_binlog=ON` decrypts its log for a dump, and sends the event that
/// announces encryption along, marked as one to skip. In a file the same event is not marked, and
/// nothing after it can be read.
#[test]
fn an_encrypted_log_is_read_from_the_server_only() {
    let mut state = DecoderState::default();
    let announced = event(164, 0x80, &[1; 17]);
    assert_eq!(parse_event(&announced, &mut state).unwrap().body, EventBody::Ignored);
    let in_a_file = event(164, 0, &[1; 17]);
    let error = parse_event(&in_a_file, &mut state).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn an_unknown_event_is_not_skipped_unless_it_may_be() {
    let mut state = DecoderState::default();
    assert!(parse_event(&event(200, 0x80, b"x"), &mut state).is_ok());
    let error = parse_event(&event(200, 0, b"x"), &mut state).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("200"), "{error}");
}

/// MariaDB sends the first ROTATE with a checksum before it has said that there are any.
#[test]
fn the_first_rotate_with_and_without_checksum() {
    let body = [&4u64.to_le_bytes()[..], b"mybin.000007"].concat();
    let plain = event(4, 0x20, &body);
    let mut summed = event(4, 0x20, &[&body[..], &[0; 4]].concat());
    let mut crc = flate2::Crc::new();
    crc.update(&summed[..summed.len() - 4]);
    let at = summed.len() - 4;
    summed[at..].copy_from_slice(&crc.sum().to_le_bytes());
    for bytes in [plain, summed] {
        let parsed = parse_event(&bytes, &mut DecoderState::default()).unwrap();
        assert_eq!(parsed.body, EventBody::Rotate { file: "mybin.000007".into(), position: 4 });
    }
}
