package docs_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// statements are the SQL of a page's blocks, without comments; an empty one is left out.
func statements(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, b := range blocks(read(t, page)) {
		if b.info != "sql" {
			continue
		}
		text := ""
		for line := range strings.Lines(b.text) {
			line, _, _ = strings.Cut(line, "--")
			text += line + "\n"
		}
		for s := range strings.SplitSeq(text, ";") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// TestDroppingDuplicates runs the SQL that docs/guarantees.md gives to consumers.
func TestDroppingDuplicates(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	conn, err := pgx.Connect(t.Context(), pg.URL(pg.NewDatabase(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql := statements(t, "docs/guarantees.md")
	if len(sql) != 4 {
		t.Fatalf("statements in docs/guarantees.md: got %d, want two tables and two inserts", len(sql))
	}
	exec := func(sql string, args ...any) int64 {
		t.Helper()
		tag, err := conn.Exec(t.Context(), sql, args...)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return tag.RowsAffected()
	}
	exec(sql[0])
	exec(sql[2])
	for _, step := range []struct {
		group string
		at    outbox.Position
		want  int64
	}{
		{"a", outbox.Position{Log: 1, Commit: 9}, 1},
		{"a", outbox.Position{Log: 1, Commit: 9}, 0},
		{"a", outbox.Position{Log: 1, Commit: 16}, 1},
		{"a", outbox.Position{Log: 1, Commit: 10, N: 7}, 0},
		{"b", outbox.Position{Log: 1, Commit: 10, N: 7}, 1},
		{"a", outbox.Position{Log: 2, Commit: 0, N: 0}, 1},
		{"a", outbox.Position{Log: 1, Commit: 1 << 40}, 0},
	} {
		if got := exec(sql[1], "orders", step.group, step.at.String()); got != step.want {
			t.Errorf("group %s at %s: %d rows, want %d", step.group, step.at, got, step.want)
		}
	}
	for i, want := range []int64{1, 0} {
		if got := exec(sql[3], "5b2c"); got != want {
			t.Errorf("id, time %d: %d rows, want %d", i+1, got, want)
		}
	}
}
