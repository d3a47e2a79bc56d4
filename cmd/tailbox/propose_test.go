package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestFromTable looks at tables of programs that people have. Beside each stands what tailbox proposes. A proposal that asks for nothing by ??? is a
// configuration that init and check take.
func TestFromTable(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]string{
		"postgres": `source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}`,
		"mariadb":  `source: {kind: mariadb, url: "${DATABASE_URL}", reconcile: 0s}`,
	} {
		files, err := filepath.Glob(filepath.Join("testdata", "propose", kind, "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tables of %s: %v", kind, err)
		}
		for _, file := range files {
			t.Run(kind+"/"+strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
				t.Parallel()
				testFromTable(t, kind, config, file)
			})
		}
	}
}

var createdTable = regexp.MustCompile(`CREATE TABLE (\S+) \(`)

func testFromTable(t *testing.T, kind, source, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const rest = "\nsinks: {out: {kind: stdout}}\nroutes: [{to: [out]}]\nadmin: {listen: off}\n"
	var r *rig
	if kind == "postgres" {
		r = newRig(t, "pipeline: shop\n"+source+rest)
		r.sql(string(text))
	} else {
		server := servers.SharedMySQL(t, kind)
		name := server.NewDatabase(t)
		r = &rig{t: t, file: write(t, "tailbox.yaml", "pipeline: shop\n"+source+rest), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}}
		for statement := range strings.SplitSeq(strings.TrimSpace(string(text)), ";\n") {
			if err := server.Exec(t.Context(), name, strings.TrimSuffix(statement, ";")); err != nil {
				t.Fatal(err)
			}
		}
	}
	table := createdTable.FindStringSubmatch(string(text))[1]
	got := r.must("init", "--from-table", table)
	golden := strings.TrimSuffix(file, ".sql") + ".yaml"
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got {
		t.Errorf("%s (%v): want\n%s\ngot\n%s", golden, err, want, got)
	}
	if strings.Contains(got, "???") {
		return
	}
	// What stands under source joins what is there.
	var tables []string
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "source:") {
			tables = append(tables, line)
		}
	}
	block := strings.NewReplacer("{kind", "\n  kind", ", url", "\n  url", ", slot", "\n  slot", ", reconcile", "\n  reconcile", "0s}", "0s").Replace(source)
	if strings.Contains(got, "start: now") { // one of the two that it asks for
		block += "\n  start: now"
	} else if strings.Contains(got, "start: pending") {
		block += "\n  start: pending"
	}
	r.file = write(t, "tailbox.yaml", "pipeline: shop\n"+block+"\n"+strings.Join(tables, "")+rest)
	r.must("init")
	if found := r.command("check"); found.code != exitDone {
		t.Errorf("check: %s%s", found.out, found.err)
	}
}
