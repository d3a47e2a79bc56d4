package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// documented returns the SQL of docs/tables.md for a database that contains a text.
func documented(t *testing.T, database, part string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sql\n-- ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if block[1] == database && strings.Contains(block[2], part) {
			return strings.TrimSuffix(strings.TrimSpace(block[2]), ";")
		}
	}
	t.Fatalf("docs/tables.md has no %s for %s", part, database)
	return ""
}

// TestHeaderForms takes the triggers of docs/tables.md that make an object of headers in another form.
func TestHeaderForms(t *testing.T) {
	t.Parallel()
	const config = "pipeline: shop\nsource:\n  kind: KIND\n  url: \"${DATABASE_URL}\"\n  tables: [{name: outbox, shape: tailbox, columns: {headers: header_object}, on_delivered: keep}]\n" +
		"sinks: {out: {kind: file, path: lines.json}}\nadmin: {listen: \"off\"}\n"
	const list = "(SELECT jsonb_object_agg(h->>'key', h->>'value') FROM jsonb_array_elements(NEW.header_list::jsonb) AS h)"
	type form struct{ column, value, expression string }
	forms := map[string]form{
		"list":   {"header_list json", `'[{"key": "trace", "value": "7"}]'`, ""},
		"base64": {"header_list text", `'[{"key": "trace", "value": "Nw=="}]'`, strings.Replace(list, "h->>'value'", "convert_from(decode(h->>'value', 'base64'), 'UTF8')", 1)},
		"arrays": {"header_keys text[], header_values text[]", "'{trace}', '{7}'", "(SELECT jsonb_object_agg(key, value) FROM unnest(NEW.header_keys, NEW.header_values) AS h(key, value))"},
		"field":  {"options jsonb", `'{"headers": {"trace": "7"}}'`, "NEW.options::jsonb->'headers'"},
	}
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		for name, f := range forms {
			if kind != "postgres" && f.expression != "" {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				r, exec := newRigOn(t, kind, strings.Replace(config, "KIND", kind, 1))
				database := "Postgres"
				if kind != "postgres" {
					database = "MySQL, MariaDB"
				}
				exec("CREATE TABLE outbox (id int PRIMARY KEY, type varchar(40) NOT NULL, payload varchar(40), " + f.column + ")")
				text := documented(t, database, "TRIGGER header_object")
				if f.expression != "" {
					text = strings.Replace(text, list, f.expression, 1)
				}
				if kind == "postgres" {
					exec(text)
				} else {
					for statement := range strings.SplitSeq(text, ";\n") {
						exec(statement)
					}
				}
				r.must("init")
				stop := r.relay()
				columns := regexp.MustCompile(`(\w+) [\w\[\]]+`).ReplaceAllString(f.column, "$1")
				exec("INSERT INTO outbox (id, type, payload, " + columns + ") VALUES (1, 'a', '{}', " + f.value + ")")
				until(t, "a message", func() bool { return slices.Equal(r.delivered(), []string{"a"}) })
				if got := stop(); got.code != exitDone {
					t.Errorf("run: %+v", got)
				}
				lines, err := os.ReadFile(r.lines)
				if err != nil {
					t.Fatal(err)
				}
				if line := strings.ReplaceAll(string(lines), " ", ""); !strings.Contains(line, `"trace":"7"`) {
					t.Errorf("delivered %s", line)
				}
			})
		}
	}
}

// TestSplitRows takes the trigger of docs/tables.md: each element of a list becomes a message of its own, in the order of the list.
func TestSplitRows(t *testing.T) {
	t.Parallel()
	trigger := func(database string) string { return documented(t, database, "TRIGGER split_events") }
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
