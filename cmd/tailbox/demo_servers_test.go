package main

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/test/servers"
)

// demoOf runs the demo until its end.
func demoOf(t *testing.T, args ...string) result {
	t.Helper()
	return tailbox(t.Context(), "", append([]string{"demo"}, args...)...)
}

func tellsAll(t *testing.T, r result) {
	t.Helper()
	if r.code != exitDone {
		t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	for _, want := range []string{"the ledger has 30 of 30, shipping 24 of 24", "dead", "its new id is", "All of it was delivered, in order"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
}

// stopped stops the demo in the middle.
func stopped(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := &trigger{text: "4. Parking", fire: cancel}
	sh := &cli.Shell{In: strings.NewReader(""), Out: out, Err: out, Now: make(chan struct{}),
		Env: func(string) (string, bool) { return "", false }}
	if code := run(ctx, sh, append([]string{"demo"}, args...)); code != exitFailed || !strings.Contains(out.seen.String(), "stopped before its end") {
		t.Errorf("exit code %d\n%s", code, out.seen.String())
	}
}

// refused wants the demo to fail with a text in its error.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	if r := demoOf(t, args...); r.code != exitFailed && r.code != exitAct || !strings.Contains(r.err, want) {
		t.Errorf("exit code %d, want %q in\n%s%s", r.code, want, r.out, r.err)
	}
}

func TestDemoOnMySQL(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			// A server of its own: what is left behind would be seen by nobody else.
			my := servers.MySQL(t, kind)
			clean := func() {
				t.Helper()
				for _, name := range myDatabases(t, my) {
					if strings.HasPrefix(name, "tailbox_demo_") {
						t.Errorf("the demo left its database %s", name)
					}
				}
			}
			tellsAll(t, demoOf(t, "--source", kind, "--url", my.URL("")))
			clean()
			stopped(t, "--source", kind, "--url", my.URL(""))
			clean()
			other := map[string]string{"mysql": "mariadb", "mariadb": "mysql"}[kind]
			refused(t, "set source.kind to "+kind, "--source", other, "--url", my.URL(""))

			if err := my.Exec(t.Context(), "", "CREATE USER visitor@'%' IDENTIFIED BY 'secret'"); err != nil {
				t.Fatal(err)
			}
			visitor := strings.Replace(my.URL(""), "root@", "visitor:secret@", 1)
			refused(t, "GRANT ALL ON `tailbox", "--source", kind, "--url", visitor)
			if err := my.Exec(t.Context(), "", "GRANT ALL ON `tailbox\\_demo\\_%`.* TO visitor@'%'"); err != nil {
				t.Fatal(err)
			}
			r := demoOf(t, "--source", kind, "--url", visitor)
			if r.code != exitAct || !strings.Contains(r.err, "GRANT ") || strings.Contains(r.out+r.err, "secret") {
				t.Errorf("without the right to read the log: exit code %d\n%s%s", r.code, r.out, r.err)
			}
			clean()
			if err := my.RestartWith(servers.WithSetting("binlog_format", "STATEMENT")); err != nil {
				t.Fatal(err)
			}
			refused(t, "binlog_format", "--source", kind, "--url", my.URL(""))
			clean()
		})
	}
}

func myDatabases(t *testing.T, my *servers.My) (names []string) {
	t.Helper()
	conn, err := my.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := conn.Execute("SHOW DATABASES")
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.RowNumber() {
		name, err := r.GetString(i, 0)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func TestDemoOnMongoDB(t *testing.T) {
	t.Parallel()
	m := servers.Mongo(t, servers.WithMongoAuth())
	clean := func() {
		t.Helper()
		names, err := m.Client(t).ListDatabaseNames(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "tailbox_demo_") {
				t.Errorf("the demo left its database %s", name)
			}
		}
	}
	r := demoOf(t, "--url", m.URL()) // the kind is that of the URL
	tellsAll(t, r)
	if strings.Contains(r.out, "root%20secret") || !strings.Contains(r.out, "root:***@") {
		t.Errorf("the password is shown, or nothing is:\n%s", r.out)
	}
	clean()
	stopped(t, "--source", "mongodb", "--url", m.URL())
	clean()
	err := m.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "visitor"}, {Key: "pwd", Value: "secret"},
		{Key: "roles", Value: bson.A{}}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "readWriteAnyDatabase", "--source", "mongodb", "--url", m.URLOf("visitor", "secret"))
	err = m.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "grantRolesToUser", Value: "visitor"},
		{Key: "roles", Value: bson.A{"readWriteAnyDatabase", "dbAdminAnyDatabase"}}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	tellsAll(t, demoOf(t, "--source", "mongodb", "--url", m.URLOf("visitor", "secret")))
	clean()

	alone := servers.Mongo(t, servers.WithMongoStandalone())
	refused(t, "--replSet", "--source", "mongodb", "--url", alone.URL())
}

func TestDemoUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"choose postgres, mysql, mariadb, mongodb": {"--source", "oracle"},
		"name it with --url":                       {"--source", "mongodb"},
	} {
		if r := demoOf(t, args...); r.code != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%q: exit code %d: %s", args, r.code, r.err)
		}
	}
}
