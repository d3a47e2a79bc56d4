package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestCheckRows: check says what the rows of a table would come to: ids that several have, rows that cannot be delivered, and columns that cannot hold
// what tailbox writes.
func TestCheckRows(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE jobs (id int NOT NULL, kind varchar(50) NOT NULL, payload text NOT NULL, headers text, state varchar(20), later varchar(40), done_at timestamp NULL, abandoned_at timestamp NULL)"
	const index = "CREATE INDEX jobs_id ON jobs (id)"
	const columns = "{type: kind, status: null, delivered_at: done_at}"
	for name, c := range map[string]struct {
		insert, table string
		want, never   string
	}{
		"one id twice": {insert: "(7, 'a', '{}', NULL, NULL, NULL, NULL, NULL), (7, 'b', '{}', NULL, NULL, NULL, NULL, NULL)", table: "columns: " + columns,
			want: "have the same id: tailbox would take them for one message"},
		"kept, one id twice": {insert: "(7, 'a', '{}', NULL, NULL, NULL, NULL, NULL), (7, 'b', '{}', NULL, NULL, NULL, NULL, NULL)", table: "on_delivered: keep, columns: {type: kind, status: null}",
			want: "consumers cannot tell their messages apart"},
		"headers that are a list": {insert: "(1, 'a', '{}', '[1]', NULL, NULL, NULL, NULL)", table: "columns: {type: kind, headers: headers, status: null, delivered_at: done_at}",
			want: "a row of table jobs cannot be delivered: column headers", never: "made up"},
		"a text for a time":  {insert: "(1, 'a', '{}', NULL, NULL, NULL, NULL, NULL)", table: "columns: {type: kind, status: null, delivered_at: done_at, next_attempt_at: later}", want: "column later of table"},
		"a text that is now": {insert: "(1, 'a', '{}', NULL, NULL, NULL, NULL, NULL)", table: "set: {dead: {later: now}}, columns: " + columns, want: "is not a time, but set.dead.later is now"},
		"given up, without a status": {insert: "(1, 'a', '{}', NULL, NULL, NULL, NULL, NOW()), (2, 'b', '{}', NULL, NULL, NULL, NULL, NULL)",
			table: "set: {dead: {abandoned_at: now}}, columns: {type: kind, delivered_at: done_at}", want: "1 row"},
		"given up by a word, and told": {insert: "(1, 'a', '{}', NULL, 'failed', NULL, NULL, NULL), (2, 'b', '{}', NULL, 'again', NULL, NULL, NULL)",
			table: "words: {pending: [new, again], retrying: again, waiting: new, delivered: done, dead: failed}, columns: {type: kind, status: state}", want: "set its status to new"},
		"a word for pending and dead": {insert: "(1, 'a', '{}', NULL, 'failed', NULL, NULL, NULL)",
			table: "words: {pending: [new, failed], retrying: failed, waiting: new, delivered: done, dead: failed}, set: {dead: {abandoned_at: now}}, columns: {type: kind, status: state}", want: "an example of table", never: "does not deliver"},
	} {
		for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				config := "source:\n  kind: " + kind + "\n  url: \"${DATABASE_URL}\"\n  start: pending\n  tables: [{name: jobs, shape: tailbox, " + c.table +
					"}]\nsinks: {out: {kind: stdout}}\nadmin: {listen: off}\n"
				r, exec := newRigOn(t, kind, config)
				for _, statement := range []string{table, index, "INSERT INTO jobs VALUES " + c.insert} {
					exec(statement)
				}
				got := r.command("check")
				if all := got.out + got.err; !strings.Contains(all, c.want) || c.never != "" && strings.Contains(all, c.never) {
					t.Errorf("want %q without %q:\n%s", c.want, c.never, all)
				}
			})
		}
	}
}

// newRigOn is a rig on a database of its own of a kind of SQL server, and what executes a statement there. The configuration has a line "  kind: KIND".
func newRigOn(t *testing.T, kind, config string) (r *rig, exec func(statement string)) {
	t.Helper()
	if kind == "postgres" {
		r = newRig(t, strings.Replace(config, "  kind: postgres\n", "  kind: postgres\n  slot: \"${SLOT}\"\n", 1))
		return r, func(statement string) { r.sql(statement) }
	}
	server := servers.SharedMySQL(t, kind)
	db := server.NewDatabase(t)
	r = &rig{t: t, file: write(t, "tailbox.yaml", config), env: map[string]string{"DATABASE_URL": server.SocketURL(db)}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	return r, func(statement string) {
		if err := server.Exec(t.Context(), db, statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckNamesAnIDThatIsNotUnique: a key of two columns keeps neither of them unique, and leads to rows by the first one all the same.
func TestCheckNamesAnIDThatIsNotUnique(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE jobs (id int NOT NULL, n int NOT NULL, kind varchar(50) NOT NULL, payload text NOT NULL, PRIMARY KEY (id, n))"
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			config := "source:\n  kind: " + kind + "\n  url: \"${DATABASE_URL}\"\n  tables: [{name: jobs, shape: tailbox, on_delivered: delete, columns: {type: kind, status: null}}]\n" +
				"sinks: {out: {kind: stdout}}\nadmin: {listen: off}\n"
			r, exec := newRigOn(t, kind, config)
			exec(table)
			got := r.command("check")
			if all := got.out + got.err; !strings.Contains(all, "is not unique: rows with the same id are one message") || !strings.Contains(all, "name another column as id") {
				t.Errorf("got\n%s", all)
			}
		})
	}
}
