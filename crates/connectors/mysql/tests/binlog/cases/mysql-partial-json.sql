SET SESSION binlog_row_value_options=PARTIAL_JSON;
CREATE TABLE parts (id INT PRIMARY KEY, n INT, d JSON, e JSON);
INSERT INTO parts VALUES (1, 1, '{"a": 1, "bb": [1, 2, {"c": "x"}], "odd key": {"é": 1.5}, "z": "a long enough text to be worth it, a long enough text to be worth it"}', '[1, 2, 3, "something long enough, something long enough"]'),
 (2, 2, '{"a": 1, "text": "a long enough text to be worth it, a long enough text"}', NULL), (3, 3, '[[1, 2], [3, 4], "a long enough text to be worth it"]', '{"k": 1}');
UPDATE parts SET d = JSON_SET(d, '$.a', 2) WHERE id = 1;
UPDATE parts SET d = JSON_SET(d, '$.bb[2].c', 'yy', '$."odd key"."é"', 2.5), n = 10 WHERE id = 1;
UPDATE parts SET d = JSON_REMOVE(d, '$.bb[0]'), e = JSON_REPLACE(e, '$[1]', 22) WHERE id = 1;
UPDATE parts SET d = JSON_SET(d, '$.new', JSON_OBJECT('q', 1)), e = JSON_SET(e, '$[9]', 'end') WHERE id = 1;
UPDATE parts SET d = JSON_REMOVE(JSON_SET(d, '$.a', 3), '$.text') WHERE id = 2;
UPDATE parts SET d = JSON_REPLACE(d, '$[0][1]', 'q'), e = JSON_SET(e, '$.l', 2) WHERE id = 3;
UPDATE parts SET d = JSON_ARRAY_INSERT(d, '$[1]', 'new') WHERE id = 3;
UPDATE parts SET d = '{"whole": 1}' WHERE id = 2;
UPDATE parts SET n = n + 1;
