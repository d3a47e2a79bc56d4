package mysqltest

import (
	"context"
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// PollDatabase is a database with one table of shape tailbox.
func PollDatabase(t *testing.T, my *servers.My) *Database {
	t.Helper()
	s, _ := outbox.ShapeNamed("tailbox")
	table := outbox.Table{Name: "outbox", Shape: "tailbox", Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
	d := NewDatabase(t, my, sourcetest.Setup{Tables: []sourcetest.Table{{Table: table}}})
	d.Cfg.Poll = true
	return d
}

// EachPolled runs a test with a database and a session of an application.
func EachPolled(t *testing.T, run func(t *testing.T, d *Database, app *server.Conn)) {
	t.Helper()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := PollDatabase(t, servers.SharedMySQL(t, kind))
			run(t, d, d.Session(t))
		})
	}
}

// Do runs statements.
func Do(t *testing.T, s *server.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := s.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// PutRow is a statement that writes message n.
func PutRow(n int) string {
	return fmt.Sprintf("INSERT INTO outbox (type, message_group, payload) VALUES ('t', 'g', '%d')", n)
}

// Session is a connection of an application.
func (d *Database) Session(t *testing.T) *server.Conn {
	t.Helper()
	s, err := d.Cfg.Connect(context.Background(), d.Cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}
