package mysql

import (
	"context"
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// pollDatabase is a database with one table of shape tailbox.
func pollDatabase(t *testing.T, my *servers.My) *kitBase {
	t.Helper()
	s, _ := outbox.ShapeNamed("tailbox")
	table := outbox.Table{Name: "outbox", Shape: "tailbox", Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
	d := openOn(t, my, sourcetest.Setup{Tables: []sourcetest.Table{{Table: table}}})
	d.cfg.Poll = true
	return d
}

// eachKind runs a test with a database and a session of an application.
func eachKind(t *testing.T, run func(t *testing.T, d *kitBase, app *session)) {
	t.Helper()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := pollDatabase(t, servers.SharedMySQL(t, kind))
			run(t, d, d.session(t))
		})
	}
}

func do(t *testing.T, s *session, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := s.exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func putRow(n int) string {
	return fmt.Sprintf("INSERT INTO outbox (type, message_group, payload) VALUES ('t', 'g', '%d')", n)
}

// session is a connection of an application.
func (d *kitBase) session(t *testing.T) *session {
	t.Helper()
	s, err := d.cfg.connect(context.Background(), d.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close(context.Background()) })
	return s
}
