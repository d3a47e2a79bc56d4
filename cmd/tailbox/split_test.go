package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestSplitRows takes the trigger of docs/tables.md: each element of a list becomes a message of its own, in the order of the list.
func TestSplitRows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	trigger := func(database string) string {
		for _, block := range regexp.MustCompile("(?s)```sql\n-- ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			if block[1] == database && strings.Contains(block[2], "TRIGGER split_events") {
				return strings.TrimSuffix(strings.TrimSpace(block[2]), ";")
			}
		}
		t.Fatalf("docs/tables.md has no trigger for %s", database)
		return ""
	}
	const config = "pipeline: shop\nsource:\n  kind: KIND\n  url: \"${DATABASE_URL}\"\n  tables: [{shape: debezium}]\n" +
		"sinks: {out: {kind: file, path: lines.json}}\nadmin: {listen: \"off\"}\n"
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r, exec := newRigOn(t, kind, strings.Replace(config, "KIND", kind, 1))
			r.must("init")
			if kind == "postgres" {
				exec("CREATE TABLE order_events (id int PRIMARY KEY, order_id text NOT NULL, events jsonb NOT NULL)")
				exec(trigger("Postgres"))
			} else {
				exec("CREATE TABLE order_events (id int PRIMARY KEY, order_id varchar(40) NOT NULL, events JSON NOT NULL)")
				exec(trigger("MySQL, MariaDB"))
			}
			stop := r.relay()
			exec(`INSERT INTO order_events VALUES (1, 'o1', '[{"type": "c", "n": 1}, {"type": "b", "n": {"deep": [2]}}, {"type": "a", "n": 3}]'), (2, 'o1', '[]'), (3, 'o1', '[{"type": "d"}]')`)
			until(t, "four messages", func() bool { return slices.Equal(r.delivered(), []string{"c", "b", "a", "d"}) })
			if got := stop(); got.code != exitDone {
				t.Errorf("run: %+v", got)
			}
			lines, err := os.ReadFile(r.lines)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.ReplaceAll(string(lines), " ", ""); !strings.Contains(text, `{"deep":[2]}`) || strings.Count(text, "o1") < 4 {
				t.Errorf("delivered %s", lines)
			}
		})
	}
}
