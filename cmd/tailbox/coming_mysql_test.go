package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestComingFromGruelboxMySQL takes what the page has for MariaDB, with the column for delays: one message is delivered, one refused, and one waits for its
// time.
func TestComingFromGruelboxMySQL(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/coming-from/gruelbox.md")
	if err != nil {
		t.Fatal(err)
	}
	config := ""
	for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
		if strings.Contains(string(block[1]), "kind: mariadb") {
			config = string(block[1])
		}
	}
	if config == "" {
		t.Fatal("the page has no configuration for MariaDB")
	}
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testGruelboxMySQL(t, kind, string(text), strings.NewReplacer("kind: mariadb", "kind: "+kind, "mysql://tailbox@127.0.0.1:3306/shop", `"${DATABASE_URL}"`, "status: processed", "status: processed, available_at: nextAttemptTime",
				"{kind: stdout}", "{kind: file, path: lines.json}, hook: {kind: http, url: \"${HOOK}\", format: single}").Replace(config))
		})
	}
}

func testGruelboxMySQL(t *testing.T, kind, page, config string) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), "refuse-me") {
			http.Error(w, "no", http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(hook.Close)
	server := servers.SharedMySQL(t, kind)
	name := server.NewDatabase(t)
	r := &rig{t: t, file: write(t, "tailbox.yaml", config+"\nretry: {attempts: 1}\nroutes: [{to: [out, hook]}]\nadmin: {listen: \"off\"}\n"),
		env: map[string]string{"DATABASE_URL": server.SocketURL(name), "HOOK": hook.URL}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	s := sections(t, filepath.Join("testdata", "coming", "gruelbox-mysql.sql"))
	sql := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			if err := server.Exec(t.Context(), name, s[part]); err != nil {
				t.Fatal(err)
			}
		}
	}
	conn, err := server.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sql("ddl", "history")
	r.must("init")
	if out := r.must("check"); strings.Contains(out, "warning: table") {
		t.Errorf("check:\n%s", out)
	}
	stop := r.relay()
	began := time.Now()
	sql("delayed", "good", "refused")
	until(t, "all three rows", func() bool {
		res, err := conn.Execute(s["state"])
		if err != nil {
			t.Fatal(err)
		}
		n, err := res.GetInt(0, 0)
		return err == nil && n == 3
	})
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the delayed message was delivered after %s", took)
	}
	for _, block := range sqlBlock.FindAllStringSubmatch(page, -1) {
		if strings.Contains(block[1], "interval '") {
			continue // that is Postgres' own
		}
		if err := server.Exec(t.Context(), name, strings.TrimSpace(strings.ReplaceAll(block[1], "txno_outbox", "TXNO_OUTBOX"))); err != nil {
			t.Error(err)
		}
	}
	if ended := stop(); ended.code != exitDone {
		t.Errorf("run: %+v", ended)
	}
	lines, err := os.ReadFile(r.lines)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(lines)), "\n")
	var last heard
	if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil || len(all) != 3 || last != (heard{Type: "com.example.MailService", Topic: "jobs", Group: "customer-9"}) {
		t.Errorf("delivered %s, want three, the delayed one last: %v", lines, err)
	}
}
