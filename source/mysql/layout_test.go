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
		if err := endsBefore(r.run(from), number(3)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
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
		if err := endsBefore(r.run(last), number(11)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
			t.Errorf("Run over rows from before the table was altered: %v", err)
		}
	})
}
