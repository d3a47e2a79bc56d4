package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// Without names of columns in the log, an ALTER that leaves number and types of the columns as they were is noticed too: rows from
// before it stop Run, and those behind it are read.
func TestMetadataMinimalSameTypes(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", "MINIMAL")))
		from := r.establish()
		x := r.run(from)
		write := func(id int) {
			t.Helper()
			r.exec("INSERT INTO outbox (id, type, topic, message_group, payload) VALUES ('" + number(id) + "', 'T', 'topic', 'group', 'p')")
		}
		write(1)
		x.until("1")
		// What changes no column, and what changes those of another table, is of no concern.
		r.exec("ALTER TABLE outbox ADD INDEX further (topic), COMMENT 'RENAME, MODIFY'", "ALTER TABLE outbox DROP INDEX further", "ANALYZE TABLE outbox",
			"CREATE TABLE IF NOT EXISTS outbox (i INT)", "CREATE TABLE other (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, FOREIGN KEY (id) REFERENCES outbox (id))",
			"ALTER TABLE other ADD COLUMN i INT, COMMENT 'outbox'", "DROP TABLE other")
		write(2)
		x.until("1 2")
		x.stop()
		again := r.run(from)
		again.until("1 2")
		again.stop()
		behind := again.resume

		live := r.run(behind)
		r.exec("ALTER TABLE outbox MODIFY topic VARCHAR(255) AFTER message_group")
		write(3)
		live.until("3")
		live.stop()
		late := r.run(behind)
		late.until("3")
		late.stop()
		for _, m := range append(append(x.messages, live.messages...), late.messages...) {
			if m.Topic != "topic" || m.Group != "group" {
				t.Errorf("message %s: topic %q, group %q", shortID(m.ID), m.Topic, m.Group)
			}
		}
		if err := r.run(from).endsBefore(number(3)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
			t.Errorf("Run over rows from before the table was altered: %v", err)
		}
	})
}

// Rows that nobody wants, the relay's own changes above all, may be of columns from before an ALTER. Those of messages may not.
func TestChangesFromBeforeAlter(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		metadata := map[string]string{KindMySQL: "MINIMAL", KindMariaDB: "NO_LOG"}[kind]
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", metadata)))
		var last source.Resume
		for i, alter := range []string{"ALTER TABLE outbox MODIFY topic VARCHAR(250)", "ALTER TABLE outbox ADD COLUMN further INT"} {
			first, second := 2*i+1, 2*i+2
			x := r.run(r.establish())
			r.exec(insert(first))
			x.until(fmt.Sprint(first))
			x.stop()
			r.exec("UPDATE outbox SET topic = 'x'", "DELETE FROM outbox", alter, insert(second))
			y := r.run(x.resume)
			y.until(fmt.Sprint(second))
			y.stop()
			last = y.resume
		}
		r.exec("DELETE FROM outbox", insert(10), "ALTER TABLE outbox MODIFY topic VARCHAR(240)", insert(11))
		if err := r.run(last).endsBefore(number(11)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
			t.Errorf("Run over rows from before the table was altered: %v", err)
		}
	})
}

// Only what may change the columns of a table makes its rows unreadable.
func TestAltersColumns(t *testing.T) {
	outboxes := []*tableInfo{{}}
	outboxes[0].Schema, outboxes[0].Name = "shop", "outbox"
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
		if got := len(altered(outboxes, []byte("shop"), []byte(sql))) > 0; got != want {
			t.Errorf("%s: alters columns: %v, want %v", sql, got, want)
		}
	}
}
