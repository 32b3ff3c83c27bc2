"""Clients of Doris that are not ours: requests for stream load, PyMySQL for SQL.

Arguments: the frontend's host:port, the host and port of the MySQL protocol, user, password, database. The database is
made anew. Ends with an exception where an answer is not what it should be.
"""

import json
import sys

import pymysql
import requests


class Session(requests.Session):
    """Keeps the credentials through the redirect to a backend, as Doris' own examples do it."""

    def rebuild_auth(self, prepared_request, response):
        pass


def main():
    frontend, host, port, user, password, database = sys.argv[1:]
    connection = pymysql.connect(host=host, port=int(port), user=user, password=password, autocommit=True)
    sql = connection.cursor()
    sql.execute(f"DROP DATABASE IF EXISTS {database}")
    sql.execute(f"CREATE DATABASE {database}")
    connection.select_db(database)
    sql.execute(
        "CREATE TABLE people (id BIGINT NOT NULL, name VARCHAR(60), born DATE, score DECIMAL(10, 2), seen DATETIME(3)) "
        "UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 "
        'PROPERTIES ("replication_num" = "1", "function_column.sequence_col" = "seen")'
    )

    http = Session()
    http.auth = (user, password)

    def load(label, rows, **headers):
        body = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
        answer = http.put(
            f"http://{frontend}/api/{database}/people/_stream_load",
            data=body,
            headers={
                "Expect": "100-continue",
                "label": label,
                "format": "json",
                "read_json_by_line": "true",
                "strict_mode": "true",
                **headers,
            },
        )
        assert answer.status_code == 200, answer
        return answer.json()

    def second_phase(operation, **headers):
        answer = http.put(
            f"http://{frontend}/api/{database}/_stream_load_2pc",
            headers={"txn_operation": operation, **headers},
        )
        return answer.json()

    rows = [
        {"id": 1, "name": "Zoë", "born": "1990-02-28", "score": 1.25, "seen": "2024-01-01 00:00:00.001"},
        {"id": 2, "name": None, "born": None, "score": "7", "seen": "2024-01-01 00:00:00.002"},
    ]
    first = load("first", rows, two_phase_commit="true")
    assert first["Status"] == "Success" and first["NumberLoadedRows"] == 2, first
    assert sql.execute("SELECT * FROM people") == 0
    again = load("first", rows, two_phase_commit="true")
    assert again["Status"] == "Label Already Exists", again
    done = second_phase("commit", txn_id=str(first["TxnId"]))
    assert done["status"] == "Success", done
    repeated = second_phase("commit", txn_id=str(first["TxnId"]))
    assert "is already visible, not pre-committed" in repeated["msg"], repeated

    sql.execute("SELECT id, name, born, score, seen FROM people ORDER BY id")
    read = [tuple(None if value is None else str(value) for value in row) for row in sql.fetchall()]
    assert read == [
        ("1", "Zoë", "1990-02-28", "1.25", "2024-01-01 00:00:00.001000"),
        ("2", None, None, "7.00", "2024-01-01 00:00:00.002000"),
    ], read

    # An older row changes nothing; a row that does not fit is refused and named.
    load("older", [{"id": 1, "name": "old", "seen": "2023-12-31 00:00:00"}])
    sql.execute("SELECT name FROM people WHERE id = %s", (1,))
    assert sql.fetchone() == ("Zoë",)
    refused = load("refused", [{"id": 3, "born": "1990-02-30", "seen": "2024-01-01 00:00:00"}])
    assert refused["Status"] == "Fail" and refused["NumberFilteredRows"] == 1, refused
    assert "1990-02-30" in http.get(refused["ErrorURL"]).text

    try:
        sql.execute("SELECT * FROM nowhere")
    except pymysql.err.MySQLError:
        pass
    else:
        raise AssertionError("a table that is not there was read")
    sql.execute("ALTER TABLE people ADD COLUMN city VARCHAR(20) DEFAULT 'Bern'")
    sql.execute("INSERT INTO people (id, name, seen) VALUES (%s, %s, %s)", (4, "it's \\ \"quoted\"", "2024-01-01"))
    sql.execute("SELECT name, city FROM people WHERE id = 4")
    assert sql.fetchone() == ("it's \\ \"quoted\"", "Bern")
    sql.execute(f"DROP DATABASE {database}")


main()
