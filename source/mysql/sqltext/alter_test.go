package sqltext

import "testing"

// Only what may change the columns of a table makes its rows unreadable.
func TestAltersColumns(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"ALTER TABLE outbox RENAME COLUMN a TO b":                                        true,
		"alter table `shop`.`outbox` add index (a), modify a int":                        true,
		"ALTER ONLINE IGNORE TABLE outbox CHANGE a b INT":                                true,
		"ALTER TABLE outbox\nDROP a":                                                     true,
		"ALTER TABLE outbox ADD COLUMN (a INT, b INT)":                                   true,
		"ALTER TABLE outbox CONVERT TO CHARACTER SET latin1":                             true,
		"ALTER TABLE ghost RENAME TO outbox":                                             true,
		"RENAME TABLE outbox TO old, ghost TO outbox":                                    true,
		"DROP TABLE IF EXISTS a, outbox":                                                 true,
		"CREATE OR REPLACE TABLE outbox (a INT)":                                         true,
		"DROP DATABASE `shop`":                                                           true,
		"ALTER TABLE outbox DROP PARTITION p1, p2":                                       false,
		"ALTER TABLE outbox ADD PARTITION (PARTITION p VALUES LESS THAN (1, 2), q)":      false,
		"ALTER TABLE outbox REORGANIZE PARTITION p INTO (PARTITION a VALUES IN (1, 2))":  false,
		"ALTER TABLE outbox ADD UNIQUE KEY k (a, b), ADD CONSTRAINT c CHECK (a > 0)":     false,
		"ALTER TABLE outbox AUTO_INCREMENT = 7, ENGINE=InnoDB, ALGORITHM = INPLACE":      false,
		"ALTER TABLE outbox RENAME INDEX a TO b, ALTER INDEX b INVISIBLE, COMMENT = ''":  false,
		"ALTER TABLE other ADD FOREIGN KEY (a) REFERENCES outbox (id), ADD COLUMN b INT": false,
		"CREATE TABLE ghost LIKE outbox":                                                 false,
		"CREATE TABLE IF NOT EXISTS outbox (a INT)":                                      false,
		"CREATE INDEX i ON outbox (a)":                                                   false,
		"GRANT SELECT ON shop.outbox TO 'a'":                                             false,
		"DROP TABLE outbox_of_others":                                                    false,
		"ALTER TABLE elsewhere.outbox DROP a":                                            false,
		"SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE outbox ADD COLUMN a INT":      true,
		"set statement a=1, b='' for SET STATEMENT c=2 FOR\n DROP TABLE outbox":          true,
		"SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE outbox ADD INDEX (a)":         false,
		"CREATE OR REPLACE TABLE outbox_archive LIKE outbox":                             false,
		"CREATE OR REPLACE TABLE `outbox_archive` SELECT * FROM outbox":                  false,
		"CREATE OR REPLACE TABLE shop.outbox LIKE other":                                 true,
		"ALTER TABLE outbox ALTER COLUMN c SET DEFAULT 'a'":                              false,
		"ALTER TABLE outbox ALTER c DROP DEFAULT, ALTER `d`SET DEFAULT (1, 2)":           false,
		"ALTER TABLE outbox ALTER c SET INVISIBLE, MODIFY c INT":                         true,
		"ALTER TABLE outbox ALTER c SET DEFAULT 1, ADD d INT":                            true,
		"ALTER TABLE outbox ENCRYPTION=''":                                               false,
		"ALTER TABLE outbox MAX_ROWS=5 MIN_ROWS 1 AVG_ROW_LENGTH = 9, CHECKSUM=1":        false,
		"ALTER TABLE outbox TABLESPACE = t, DEFAULT CHARACTER SET latin1 COLLATE x":      false,
		"ALTER TABLE outbox CHARSET=latin1, COLLATE x, CHARACTER SET x":                  false,
		"ALTER TABLE outbox CHARSET=latin1, CONVERT TO CHARACTER SET latin1":             true,
		"ALTER TABLE outbox CONVERT PARTITION p TO TABLE other":                          false,
		"ALTER TABLE archive CONVERT TABLE outbox TO PARTITION p VALUES LESS THAN (1)":   true,
		"ALTER TABLE outbox CONVERT TABLE other TO PARTITION p VALUES LESS THAN (1)":     false,
		"ALTER TABLE outbox ADD key$1 INT":                                               true,
		"ALTER TABLE outbox ADD `key` INT":                                               true,
		"ALTER TABLE outbox ADD COLUMN comment INT":                                      true,
		"ALTER TABLE outbox DROP comment":                                                true,
		"ALTER TABLE outbox CHANGE COLUMN checksum checksum2 INT":                        true,
		"ALTER TABLE outbox ADD SYSTEM VERSIONING":                                       true,
	} {
		if got := ChangesColumns([]byte(sql), "shop", "shop", "outbox"); got != want {
			t.Errorf("%s: alters columns: %v, want %v", sql, got, want)
		}
	}
}
