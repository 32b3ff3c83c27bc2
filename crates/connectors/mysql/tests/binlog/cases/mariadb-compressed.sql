SET GLOBAL log_bin_compress=ON;
CREATE TABLE cp (id INT PRIMARY KEY, c TEXT, n INT DEFAULT 5) COMMENT 'a comment that is long enough to make this statement longer than the two hundred and fifty-six bytes from which on query events are compressed as well as row events are, so that the reader must inflate the statement before it reads it; and some more to be sure';
INSERT INTO cp VALUES (1,REPEAT('1',252),1);
INSERT INTO cp VALUES (2,REPEAT('1',252),2),(3,REPEAT('2',253),3),(4,REPEAT('3',65535),4);
UPDATE cp SET c=REPEAT('4',5000) WHERE id=1;
DELETE FROM cp WHERE id=3;
SET GLOBAL log_bin_compress=OFF;
