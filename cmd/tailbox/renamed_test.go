package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const renamedConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  reconcile: 0s
  tables: [{columns: COLUMNS}]
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: "127.0.0.1:0"}
`

// A renaming is a table whose columns are renamed while rows are unread.
type renaming struct {
	*rig
	t *testing.T
}

func newRenaming(t *testing.T, ddl string) *renaming {
	t.Helper()
	r := &renaming{newRig(t, ""), t}
	r.configure("{}")
	r.sql(ddl)
	r.must("init")
	return r
}

func (r *renaming) configure(columns string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(strings.Replace(renamedConfig, "COLUMNS", columns, 1)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// insert writes a message of a type into the columns as they are named now.
func (r *renaming) insert(id, payload, typ string) {
	r.t.Helper()
	r.sql(`INSERT INTO outbox (`+id+`, aggregatetype, aggregateid, type, `+payload+`) VALUES (gen_random_uuid(), 'a', '1', $1, '{"of": 1}')`, typ)
}

// ends runs the relay, which has to stop by itself with an error that has the texts in it.
func (r *renaming) ends(texts ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute) // where it does not end by itself
	defer cancel()
	got := r.with(ctx, "run")
	for _, want := range texts {
		if got.code == exitDone || !strings.Contains(got.err, want) {
			r.t.Errorf("run lacks %q: %+v", want, got)
		}
	}
}

// delivers runs the relay until these types have been delivered, all in all.
func (r *renaming) delivers(types ...string) {
	r.t.Helper()
	stop := r.relay()
	until(r.t, strings.Join(types, " "), func() bool { return len(r.delivered()) >= len(types) })
	stop()
	if got := r.delivered(); !slices.Equal(got, types) {
		r.t.Errorf("delivered %v, want %v", got, types)
	}
	var left int
	if err := r.conn.QueryRow(r.t.Context(), "SELECT count(*) FROM outbox").Scan(&left); err != nil || left != 0 {
		r.t.Errorf("%d rows are left, %v", left, err)
	}
}

const (
	renamedDDL = "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)"
	// gapDDL makes a table of which nobody can tell which columns it had before.
	gapDDL = "CREATE TABLE outbox (x int, id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb); ALTER TABLE outbox DROP x"
)

// TestColumnsRenamedWhileUnread: rows from before the renaming are read by the new names, where it is certain which columns they are.
func TestColumnsRenamedWhileUnread(t *testing.T) {
	t.Parallel()
	r := newRenaming(t, renamedDDL)
	r.insert("id", "payload", "one")
	r.sql("ALTER TABLE outbox RENAME payload TO body")
	r.insert("id", "body", "two")
	r.sql(`ALTER TABLE outbox RENAME id TO "eventId"`)
	r.sql("ALTER TABLE outbox ADD note text")
	r.insert(`"eventId"`, "body", "three")
	if check := r.command("check"); !strings.Contains(check.out, "no column id, payload") {
		t.Errorf("check: %+v", check)
	}
	r.configure(`{id: '"eventId"', payload: body}`)
	if check := r.command("check"); check.code != exitDone {
		t.Errorf("check: %+v", check)
	}
	r.delivers("one", "two", "three")
}

// TestColumnRenamedWhileRunning: the relay stops, with all that came before settled, and goes on when it is told the new name.
func TestColumnRenamedWhileRunning(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct{ ddl, columns string }{
		"renamed":                    {renamedDDL, "{payload: body}"},
		"after a column was dropped": {gapDDL, "{payload: body}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRenaming(t, change.ddl)
			r.insert("id", "payload", "one")
			r.insert("id", "payload", "two")
			r.sql("ALTER TABLE outbox RENAME payload TO body")
			r.insert("id", "body", "three")
			r.ends("no column payload", "name the new column")
			if got := r.delivered(); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("delivered %v", got)
			}
			r.configure(change.columns)
			r.delivers("one", "two", "three")
		})
	}
}

// TestColumnDroppedWhileUnread: rows from before are delivered as they were written; the relay stops at the first one after it.
func TestColumnDroppedWhileUnread(t *testing.T) {
	t.Parallel()
	r := newRenaming(t, renamedDDL+"; ALTER TABLE outbox ADD meta jsonb")
	r.configure("{headers: meta}")
	r.insert("id", "payload", "one")
	r.sql("ALTER TABLE outbox DROP meta")
	r.insert("id", "payload", "two")
	r.ends("no column meta", "take it out")
	r.configure("{}")
	r.delivers("one", "two")
}

// TestColumnRenamedInAlteredTable: where it cannot be known which column it was, doing what the error says loses nothing.
func TestColumnRenamedInAlteredTable(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"id", "payload"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			r := newRenaming(t, gapDDL)
			id, payload := "id", "payload"
			if column == "id" {
				id = "renamed"
			} else {
				payload = "renamed"
			}
			r.insert("id", "payload", "one")
			r.sql("ALTER TABLE outbox RENAME " + column + " TO renamed")
			r.insert(id, payload, "two")
			r.configure("{" + column + ": renamed}")
			r.ends("no column renamed in the rows that come next", "give it the old name again (ALTER TABLE")
			r.sql("ALTER TABLE outbox RENAME COLUMN renamed TO " + column)
			r.configure("{}")
			r.ends("no column " + column)
			r.sql("ALTER TABLE outbox RENAME COLUMN " + column + " TO renamed")
			r.configure("{" + column + ": renamed}")
			r.delivers("one", "two")
		})
	}
}
