package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

const doctorConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{shape: tailbox}]}
sinks:
  api: {kind: http, url: "${API_URL}/s3cret?key=s3cret", format: single, bearer: s3cret-bearer, headers: {X-Own: s3cret}}
  mail: {kind: smtp, address: "${MAIL}", from: shop@example.org, auth: {username: u, password: s3cret}, security: none}
routes: [{match: {type: mail}, to: mail}, {to: api}]
retry: {attempts: 1}
admin: {listen: "${ADMIN}", token: s3cret-token}
`

// unpack returns the files of an archive by their names.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the archive: %v, %v", info.Mode(), err)
	}
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "tailbox-doctor/")] = string(text)
	}
}

// doctored runs doctor, and looks for secrets in all that it wrote and said.
func (r *rig) doctored(say ...string) map[string]string {
	r.t.Helper()
	name := filepath.Join(r.t.TempDir(), "archive.tar.gz")
	got := r.command("doctor", "--file", name)
	if got.code != exitDone || !strings.Contains(got.out, "wrote "+name) || strings.Contains(got.out+got.err, "s3cret") {
		r.t.Errorf("doctor: %+v", got)
	}
	for _, want := range say {
		if !strings.Contains(got.out, want) {
			r.t.Errorf("doctor does not say %q:\n%s", want, got.out)
		}
	}
	files := unpack(r.t.(*testing.T), name)
	for name, text := range files {
		if strings.Contains(name+text, "s3cret") {
			r.t.Errorf("%s holds a secret:\n%s", name, text)
		}
	}
	if again := r.command("doctor", "--file", name); again.code != exitUsage || !strings.Contains(again.err, "is there already: name another file with --file") {
		r.t.Errorf("doctor over an archive: %+v", again)
	}
	return files
}

// wantIn looks for texts in a file of an archive.
func wantIn(t testing.TB, files map[string]string, name string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(files[name], text) {
			t.Errorf("no %q in %s:\n%s", text, name, files[name])
		}
	}
}

// TestDoctor: the archive holds what a maintainer needs, and no secret, payload or answer, wherever these are; with a relay, without it, and without
// the database.
func TestDoctor(t *testing.T) {
	t.Setenv("PASSWORD", "s3cret-of-the-environment")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "answer: s3cret, as in s3cret-bearer", http.StatusBadRequest)
	}))
	t.Cleanup(api.Close)
	r := newRig(t, doctorConfig)
	r.env["API_URL"], r.env["ADMIN"] = api.URL, servers.FreeAddr(t)
	r.env["MAIL"] = chatty(t, "554 no: s3cret")
	r.env["DATABASE_URL"] = strings.Replace(r.env["DATABASE_URL"], "postgres@", "postgres:s3cret-password@", 1)
	r.must("init")
	files := r.doctored("check.json", "metrics.txt   missing: no relay answers at admin.listen")
	wantIn(t, files, "errors.json", "[]")
	wantIn(t, files, "check.json", "sink mail of kind smtp has a problem")

	stop := r.relay()
	for i := range 3 {
		r.must("send", "--type", "order", "--group", "s3cret", "--header", "x-key=s3cret", fmt.Sprintf(`{"x": "s3cret", "n": %d}`, i))
	}
	r.must("group", "hold", "s3cret-too")
	until(t, "a dead letter and those that wait", func() bool {
		states := r.parkedStates()
		return states["dead"] == 1 && states["waiting"] == 2
	})
	files = r.doctored("database.json the database server's version and settings", "It holds no secret")
	for name, wants := range map[string][]string{
		"README.txt":    {"of pipeline shop", "errors.json"},
		"version.txt":   {"tailbox ", "go1."},
		"system.txt":    {"processors: ", "/proc/self/limits", "Max open files"},
		"config.yaml":   {"pipeline: shop\n", "bearer: '***'", "max_batch: 100\n", "url: postgres://***@"},
		"database.json": {"PostgreSQL 17", "wal_level", "logical", "max_slot_wal_keep_size"},
		"status.json":   {`"dead": 1`, `"checkpoint": {`, `"Group": "***"`},
		"errors.json":   {`"error_class": "permanent"`, `"count": 1`, `"sink": "api"`},
		"metrics.txt":   {"tailbox_messages_received_total", "go_goroutines"},
	} {
		wantIn(t, files, name, wants...)
	}
	if got := stop(); strings.Contains(got.err, "s3cret") {
		t.Errorf("the log has a secret: %s", got.err)
	}

	r.env["DATABASE_URL"] = "postgres://postgres:s3cret@127.0.0.1:1/none"
	files = r.doctored("database.txt  missing: connect to postgres", "status.txt    missing: not asked for, because the database does not answer\n")
	wantIn(t, files, "check.json", "connect", "problem")
	wantIn(t, files, "config.yaml", "url: postgres://***@127.0.0.1:1/none")
}

// TestDoctorOfKinds: MySQL, MariaDB and MongoDB tell their versions and settings, too.
func TestDoctorOfKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range append(servers.MySQLKinds(), "mongodb") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			source := fmt.Sprintf(`source: {kind: %s, url: "${DATABASE_URL}", tables: [{shape: tailbox}]}`, kind)
			env, want := map[string]string{}, "binlog_row_image"
			if kind == "mongodb" {
				source = strings.Replace(source, ", tables", `, schema: "${DATABASE}", tables`, 1)
				server := servers.SharedMongo(t)
				env["DATABASE_URL"], env["DATABASE"], want = server.URL(), server.NewDatabase(t), "maxWireVersion"
			} else {
				server := servers.SharedMySQL(t, kind)
				env["DATABASE_URL"] = server.SocketURL(server.NewDatabase(t))
			}
			r := &rig{t: t, file: write(t, "tailbox.yaml", source+"\nsinks: {out: {kind: discard}}\nadmin: {listen: off}\n"), env: env}
			r.must("init")
			files := r.doctored()
			wantIn(t, files, "database.json", want, `"name": "version"`)
			wantIn(t, files, "status.json", `"checkpoint": {`)
		})
	}
}

// chatty is the address of a server that greets all with a line and hangs up.
func chatty(t *testing.T, line string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, line+"\r\n")
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}
