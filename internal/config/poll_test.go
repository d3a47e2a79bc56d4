package config_test

import (
	"strings"
	"testing"
)

func TestPoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, yaml string
		errs       []string
	}{
		"shape with a sequence": {kind: "postgres", yaml: "tables: [{shape: tailbox}]"},
		"named sequence":        {kind: "mysql", yaml: "tables: [{columns: {seq: n}}]"},
		"delete":                {kind: "mariadb", yaml: "tables: [{shape: tailbox, on_delivered: delete}]"},
		"no tables":             {kind: "postgres", yaml: "start: now", errs: []string{"source.tables[0].columns.seq: is missing"}},
		"keep":                  {kind: "postgres", yaml: "tables: [{shape: tailbox, on_delivered: keep}]", errs: []string{`on_delivered "keep": cannot be used with read: poll`}},
		"never compared":        {kind: "postgres", yaml: "reconcile: 0, tables: [{shape: tailbox}]", errs: []string{"source.reconcile"}},
		"two tables": {kind: "mysql", yaml: "tables: [{shape: tailbox}, {name: second}]",
			errs: []string{"source.tables: has 2 tables", "source.tables[1].columns.seq: is missing"}},
		"mongodb": {kind: "mongodb", yaml: "tables: [{}]", errs: []string{"source.read: unknown key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, "", "source: {kind: "+c.kind+", url: x, read: poll, "+c.yaml+"}\n")
			if len(c.errs) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if !got.Source.Poll {
					t.Error("poll is not set")
				}
				return
			}
			for _, want := range c.errs {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
		})
	}
}
