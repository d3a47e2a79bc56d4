package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// Without names of columns in the log, an ALTER that leaves number and types of the columns as they were is noticed too: rows from
// before it stop Run, and those behind it are read.
func TestMetadataMinimalSameTypes(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", "MINIMAL")))
		from := r.Establish()
		x := r.Run(from)
		write := func(id int) {
			t.Helper()
			r.Exec("INSERT INTO outbox (id, type, topic, message_group, payload) VALUES ('" + mysqltest.Number(id) + "', 'T', 'topic', 'group', 'p')")
		}
		write(1)
		x.Until("1")
		// What changes no column, and what changes those of another table, is of no concern.
		r.Exec("ALTER TABLE outbox ADD INDEX further (topic), COMMENT 'RENAME, MODIFY'", "ALTER TABLE outbox DROP INDEX further", "ANALYZE TABLE outbox",
			"CREATE TABLE IF NOT EXISTS outbox (i INT)", "CREATE TABLE other (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, FOREIGN KEY (id) REFERENCES outbox (id))",
			"ALTER TABLE other ADD COLUMN i INT, COMMENT 'outbox'", "DROP TABLE other")
		write(2)
		x.Until("1 2")
		x.Stop()
		again := r.Run(from)
		again.Until("1 2")
		again.Stop()
		behind := again.Resume

		live := r.Run(behind)
		r.Exec("ALTER TABLE outbox MODIFY topic VARCHAR(255) AFTER message_group")
		write(3)
		live.Until("3")
		live.Stop()
		late := r.Run(behind)
		late.Until("3")
		late.Stop()
		for _, m := range append(append(x.Messages, live.Messages...), late.Messages...) {
			if m.Topic != "topic" || m.Group != "group" {
				t.Errorf("message %s: topic %q, group %q", mysqltest.ShortID(m.ID), m.Topic, m.Group)
			}
		}
		if err := endsBefore(r.Run(from), mysqltest.Number(3)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
			t.Errorf("Run over rows from before the table was altered: %v", err)
		}
	})
}

// Rows that nobody wants, the relay's own changes above all, may be of columns from before an ALTER. Those of messages may not.
func TestChangesFromBeforeAlter(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		metadata := map[string]string{server.KindMySQL: "MINIMAL", server.KindMariaDB: "NO_LOG"}[kind]
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", metadata)))
		var last source.Resume
		for i, alter := range []string{"ALTER TABLE outbox MODIFY topic VARCHAR(250)", "ALTER TABLE outbox ADD COLUMN further INT"} {
			first, second := 2*i+1, 2*i+2
			x := r.Run(r.Establish())
			r.Exec(mysqltest.Insert(first))
			x.Until(fmt.Sprint(first))
			x.Stop()
			r.Exec("UPDATE outbox SET topic = 'x'", "DELETE FROM outbox", alter, mysqltest.Insert(second))
			y := r.Run(x.Resume)
			y.Until(fmt.Sprint(second))
			y.Stop()
			last = y.Resume
		}
		r.Exec("DELETE FROM outbox", mysqltest.Insert(10), "ALTER TABLE outbox MODIFY topic VARCHAR(240)", mysqltest.Insert(11))
		if err := endsBefore(r.Run(last), mysqltest.Number(11)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
			t.Errorf("Run over rows from before the table was altered: %v", err)
		}
	})
}
