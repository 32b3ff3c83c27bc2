SET GLOBAL binlog_row_metadata=MINIMAL;
-- Numbers at their ends, under every sign.
CREATE TABLE numbers (
  id INT PRIMARY KEY,
  t1 TINYINT, t2 TINYINT UNSIGNED, t3 TINYINT(1), s1 SMALLINT, s2 SMALLINT UNSIGNED,
  m1 MEDIUMINT, m2 MEDIUMINT UNSIGNED, i1 INT, i2 INT UNSIGNED ZEROFILL, y YEAR, b1 BIGINT, b2 BIGINT UNSIGNED,
  f FLOAT, g FLOAT(36,6), d DOUBLE,
  n1 DECIMAL(5,2), n2 DECIMAL(38,10), n3 DECIMAL(65,30), n4 DECIMAL(65,0), n5 DECIMAL(9,9), n6 DECIMAL(18,9) UNSIGNED, n7 DECIMAL(10,2) ZEROFILL,
  bit1 BIT(1), bit9 BIT(9), bit63 BIT(63), bit64 BIT(64)
);
INSERT INTO numbers VALUES
 (1, -128, 255, 9, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, 1901, -9223372036854775808, 18446744073709551615,
  0.07, 123.456789, 0.1, -999.99, -9999999999999999999999999999.0123456789, -12345678901234567890123456789012345.123456789012345678901234567890,
  99999999999999999999999999999999999999999999999999999999999999999, -0.123456789, 123456789.000000001, 12.5,
  b'1', b'101010101', b'111111111111111111111111111111111111111111111111111111111111111', b'1111111111111111111111111111111111111111111111111111111111111111'),
 (2, 127, 128, -1, 32767, 32768, 8388607, 8388608, 2147483647, 2147483648, 2155, 9223372036854775807, 9223372036854775808,
  -87654321, 16777217, 1e308, 0.01, 0, 0, -1, 0.999999999, 0, 0, b'0', 0, 0, 0),
 (3, -1, 0, 0, -1, 0, -1, 0, -1, 0, 0, -1, 0, 3.4028234e38, 0, 4.9e-324, -0.01, 1, -0.000000000000000000000000000001, 1, 0, 1, 1, NULL, 256, 1, 9223372036854775808),
 (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- Times.
CREATE TABLE times (
  id INT PRIMARY KEY, d DATE, dn DATE NOT NULL,
  t0 TIME, t1 TIME(1), t2 TIME(2), t3 TIME(3), t4 TIME(4), t5 TIME(5), t6 TIME(6),
  dt0 DATETIME, dt1 DATETIME(1), dt2 DATETIME(2), dt3 DATETIME(3), dt4 DATETIME(4), dt5 DATETIME(5), dt6 DATETIME(6),
  ts0 TIMESTAMP NULL, ts1 TIMESTAMP(1) NULL, ts2 TIMESTAMP(2) NULL, ts3 TIMESTAMP(3) NULL, ts4 TIMESTAMP(4) NULL, ts5 TIMESTAMP(5) NULL, ts6 TIMESTAMP(6) NULL
);
INSERT INTO times VALUES
 (1, '2024-02-29', '1000-01-01', '-838:59:59', '-00:00:00.1', '-00:00:00.01', '-00:00:00.001', '-00:00:00.0001', '-00:00:00.00001', '-00:00:00.000001',
  '9999-12-31 23:59:59', '1000-01-01 00:00:00.9', '2024-01-01 01:01:01.99', '1969-12-31 23:59:59.999', '2024-01-01 01:01:01.9999', '2024-01-01 01:01:01.99999', '2024-01-01 01:01:01.999999',
  '1970-01-01 00:00:01', '2024-01-01 01:01:01.9', '2024-01-01 01:01:01.99', '2024-01-01 01:01:01.999', '2024-01-01 01:01:01.9999', '2024-01-01 01:01:01.99999', '2038-01-19 03:14:07.999999'),
 (2, '0000-00-00', '0000-00-00', '838:59:59', '-838:59:58.9', '-01:02:03.45', '-10:20:30.456', '-100:00:00.4567', '-00:00:59.99999', '-838:59:58.999999',
  '0000-00-00 00:00:00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00',
  '0000-00-00 00:00:00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00'),
 (3, '2024-00-00', '2024-05-00', '00:00:00', '838:59:58.9', '01:02:03.45', '10:20:30.456', '100:00:00.4567', '00:00:59.99999', '838:59:58.999999',
  '2024-00-01 10:00:00', '2024-01-00 10:00:00.5', '2024-06-15 12:30:45', '2024-06-15 12:30:45', '2024-06-15 12:30:45', '2024-06-15 12:30:45', '2024-06-15 12:30:45', NULL, NULL, NULL, NULL, NULL, NULL, '2024-06-15 12:30:45'),
 (4, NULL, '9999-12-31', '-00:00:01', '-00:00:01', '-00:00:01', '-00:00:01', '-00:00:01', '-00:00:01', '-00:00:01', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SET sql_mode='ALLOW_INVALID_DATES';
INSERT INTO times(id, d, dn, dt6) VALUES (5, '2023-02-31', '0000-01-01', '2023-04-31 10:00:00.5');
SET sql_mode='NO_ENGINE_SUBSTITUTION';
-- Text in many character sets; long CHAR and VARCHAR have two bytes of length.
CREATE TABLE texts (
  id INT PRIMARY KEY, c CHAR(10) CHARACTER SET utf8mb4, cl CHAR(255) CHARACTER SET utf8mb4, v VARCHAR(63) CHARACTER SET utf8mb4, vl VARCHAR(300) CHARACTER SET utf8mb4,
  tt TINYTEXT CHARACTER SET utf8mb4, tx TEXT CHARACTER SET utf8mb4, mt MEDIUMTEXT CHARACTER SET utf8mb4, lt LONGTEXT CHARACTER SET utf8mb4,
  l1 VARCHAR(20) CHARACTER SET latin1, l2 VARCHAR(20) CHARACTER SET latin2, cy VARCHAR(20) CHARACTER SET cp1251, ko CHAR(20) CHARACTER SET koi8r,
  g VARCHAR(50) CHARACTER SET gbk, gt TEXT CHARACTER SET gbk, b5 VARCHAR(20) CHARACTER SET big5, sj VARCHAR(20) CHARACTER SET sjis, uj VARCHAR(20) CHARACTER SET ujis,
  ek VARCHAR(20) CHARACTER SET euckr, u2 VARCHAR(20) CHARACTER SET ucs2, u16 CHAR(20) CHARACTER SET utf16, u16l VARCHAR(20) CHARACTER SET utf16le, u32 VARCHAR(20) CHARACTER SET utf32,
  u3 VARCHAR(20) CHARACTER SET utf8mb3, a VARCHAR(20) CHARACTER SET ascii, bi CHAR(5) CHARACTER SET binary, th VARCHAR(20) CHARACTER SET tis620
) DEFAULT CHARSET=latin1;
INSERT INTO texts VALUES
 (1, 'a', 'long 😀', 'v 😀', REPEAT('é', 300), 'tiny', 'text 文', 'medium', 'long', 'é€', 'ł', 'Привет', 'Привет', '样本', '长文本样本', '中文', '日本', '日本', '한국', '文A', '😀A', '😀A', '😀A', '文', 'ascii', 'bin', 'ก'),
 (2, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
 (3, '  x  ', REPEAT('文', 255), '  y  ', 'z', REPEAT('t', 255), REPEAT('x', 3000), NULL, REPEAT('l', 5000), UNHEX('81'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, UNHEX('0102030405'), NULL);
UPDATE texts SET cy = UNHEX('CF98'), l1 = UNHEX('818D8F909D80FF') WHERE id = 3;
-- Bytes.
CREATE TABLE bytes (
  id INT PRIMARY KEY, u BINARY(16), b255 BINARY(255), v VARBINARY(16), vl VARBINARY(300), tb TINYBLOB, b BLOB, mb MEDIUMBLOB, lb LONGBLOB,
  p POINT, g GEOMETRY
);
INSERT INTO bytes VALUES
 (1, UNHEX('01000000000000000000000000000000'), 'x', UNHEX('0100'), REPEAT('v', 300), UNHEX('00'), UNHEX('0000'), UNHEX('FF'), REPEAT(UNHEX('00FF'), 1000), ST_GeomFromText('POINT(1 -2.5)'), ST_GeomFromText('LINESTRING(0 0, 1 1)')),
 (2, UNHEX('00000000000000000000000000000000'), '', '', '', '', '', '', '', NULL, ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), POLYGON((0 0,1 0,1 1,0 0)))')),
 (3, UNHEX('3A5B7C9D1E2F40619A8B7C6D5E4F3200'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- ENUM and SET: one and two bytes, the empty value of index 0, labels in other character sets.
CREATE TABLE labels (id INT PRIMARY KEY, e ENUM('low','high','a,b','it''s') CHARACTER SET utf8mb4, s SET('a','b','c d','é') CHARACTER SET utf8mb4, el ENUM('é','ö') CHARACTER SET latin1, eg ENUM('样','本') CHARACTER SET gbk,
  s64 SET('0','1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17','18','19','20','21','22','23','24','25','26','27','28','29','30','31','32','33','34','35','36','37','38','39','40','41','42','43','44','45','46','47','48','49','50','51','52','53','54','55','56','57','58','59','60','61','62','63'),
  s9 SET('a','b','c','d','e','f','g','h','i'),
  big ENUM('v1','v2','v3','v4','v5','v6','v7','v8','v9','v10','v11','v12','v13','v14','v15','v16','v17','v18','v19','v20','v21','v22','v23','v24','v25','v26','v27','v28','v29','v30','v31','v32','v33','v34','v35','v36','v37','v38','v39','v40','v41','v42','v43','v44','v45','v46','v47','v48','v49','v50','v51','v52','v53','v54','v55','v56','v57','v58','v59','v60','v61','v62','v63','v64','v65','v66','v67','v68','v69','v70','v71','v72','v73','v74','v75','v76','v77','v78','v79','v80','v81','v82','v83','v84','v85','v86','v87','v88','v89','v90','v91','v92','v93','v94','v95','v96','v97','v98','v99','v100','v101','v102','v103','v104','v105','v106','v107','v108','v109','v110','v111','v112','v113','v114','v115','v116','v117','v118','v119','v120','v121','v122','v123','v124','v125','v126','v127','v128','v129','v130','v131','v132','v133','v134','v135','v136','v137','v138','v139','v140','v141','v142','v143','v144','v145','v146','v147','v148','v149','v150','v151','v152','v153','v154','v155','v156','v157','v158','v159','v160','v161','v162','v163','v164','v165','v166','v167','v168','v169','v170','v171','v172','v173','v174','v175','v176','v177','v178','v179','v180','v181','v182','v183','v184','v185','v186','v187','v188','v189','v190','v191','v192','v193','v194','v195','v196','v197','v198','v199','v200','v201','v202','v203','v204','v205','v206','v207','v208','v209','v210','v211','v212','v213','v214','v215','v216','v217','v218','v219','v220','v221','v222','v223','v224','v225','v226','v227','v228','v229','v230','v231','v232','v233','v234','v235','v236','v237','v238','v239','v240','v241','v242','v243','v244','v245','v246','v247','v248','v249','v250','v251','v252','v253','v254','v255','v256','v257','v258','v259','v260','v261','v262','v263','v264','v265','v266','v267','v268','v269','v270','v271','v272','v273','v274','v275','v276','v277','v278','v279','v280','v281','v282','v283','v284','v285','v286','v287','v288','v289','v290','v291','v292','v293','v294','v295','v296','v297','v298','v299','v300'));
INSERT INTO labels VALUES (1,'low','a,é','é','本','63','i','v1'), (2,'it''s','','ö','样','0,1,31,32,62,63','a,i','v300'), (3,'a,b','b,c d',NULL,NULL,18446744073709551615,NULL,'v256');
INSERT IGNORE INTO labels VALUES (4,'nonsense','','é','样','','','v255');
-- A key of three columns; odd names; no key.
CREATE TABLE `odd ``names`` 文` (b INT, a VARCHAR(10) CHARACTER SET utf8mb4, `c-d` DATE, n INT, PRIMARY KEY (b, `c-d`, a));
INSERT INTO `odd ``names`` 文` VALUES (1,'x','2024-01-01',1), (1,'y','2024-01-01',2), (2,'x','2024-01-02',3), (3, 'k', '2024-01-03', 4);
UPDATE `odd ``names`` 文` SET n = n + 10 WHERE b = 1;
UPDATE `odd ``names`` 文` SET a = UPPER(a) WHERE b = 2;
UPDATE `odd ``names`` 文` SET b = b + 7, n = NULL WHERE b = 1 AND a = 'y';
DELETE FROM `odd ``names`` 文` WHERE b = 3;
CREATE TABLE keyless (a INT, b VARCHAR(20));
INSERT INTO keyless VALUES (1,'x'),(2,NULL),(3,'z'),(4,'w');
UPDATE keyless SET b = 'changed' WHERE a <= 2;
DELETE FROM keyless WHERE a = 3;
-- Only on MariaDB.
CREATE TABLE own (id INT PRIMARY KEY, u UUID, a INET6, b INET4, j JSON, cv VARCHAR(100) COMPRESSED CHARACTER SET utf8mb4, ct TEXT COMPRESSED CHARACTER SET latin1, cb BLOB COMPRESSED, cw VARBINARY(500) COMPRESSED,
  gv INT AS (id * 2) VIRTUAL, gs INT AS (id * 3) PERSISTENT, h INT INVISIBLE DEFAULT 7);
INSERT INTO own(id,u,a,b,j,cv,ct,cb,cw) VALUES
 (1,'00112233-4455-6677-8899-aabbccddeeff','::','0.0.0.0','null','short','','',''),
 (2,'f47ac10b-58cc-4372-a567-0e02b2c3d400','::1','1.2.3.4','{"b":1,  "a":1.10, "a":2}',REPEAT('é',100),REPEAT('é',3000),REPEAT(UNHEX('00FF'),2000),REPEAT('w',500)),
 (3,'018f4e6a-7b2c-7abc-8def-001122334400','::ffff:1.2.3.4','255.0.0.1','{"u":"\\u00e9"}',NULL,NULL,NULL,NULL),
 (4,'ffffffff-ffff-ffff-ffff-ffffffffffff','2001:db8::1',NULL,NULL,'','x',UNHEX('00'),UNHEX('8000')),
 (5,'01234567-89ab-1def-8123-456789abcdef','1:0:2:0:3:4:5:0','10.0.0.0',NULL,NULL,NULL,NULL,NULL),
 (6,'01234567-89ab-5def-0123-456789abcdef','0:0:0:0:0:1:2:3','0.0.1.0',NULL,NULL,NULL,NULL,NULL);
SET column_compression_zlib_wrap=ON, column_compression_threshold=0;
INSERT INTO own(id,cv,ct,cb) VALUES (7,REPEAT('z',100),REPEAT('y',70000 DIV 2),REPEAT('x',300));
SET GLOBAL binlog_row_metadata=FULL;
