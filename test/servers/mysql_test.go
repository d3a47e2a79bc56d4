package servers_test

import (
	"context"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// myOne returns the single value of a query as text.
func myOne(t *testing.T, ctx context.Context, my *servers.My, db, sql string) string {
	t.Helper()
	conn, err := my.Connect(ctx, db)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close()
	r, err := conn.Execute(sql)
	if err != nil {
		t.Fatalf("query %q: %v", sql, err)
	}
	text, err := r.GetString(0, 0)
	if err != nil {
		t.Fatalf("query %q: %v", sql, err)
	}
	return text
}

func myExec(t *testing.T, ctx context.Context, my *servers.My, db string, sql ...string) {
	t.Helper()
	if err := my.Exec(ctx, db, sql...); err != nil {
		t.Fatal(err)
	}
}

func TestMySQLWritesABinlog(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			my := servers.SharedMySQL(t, kind)
			db := my.NewDatabase(t)
			for setting, want := range map[string]string{"log_bin": "1", "binlog_format": "ROW", "binlog_row_image": "FULL",
				"binlog_row_metadata": "FULL", "sync_binlog": "1"} {
				if got := myOne(t, ctx, my, db, "SELECT @@global."+setting); got != want {
					t.Errorf("%s: got %s, want %s", setting, got, want)
				}
			}
			gtids := "SELECT @@global.gtid_executed"
			if kind == "mariadb" {
				gtids = "SELECT @@global.gtid_binlog_pos"
			}
			myExec(t, ctx, my, db, "CREATE TABLE n (i int PRIMARY KEY)")
			if got := myOne(t, ctx, my, db, gtids); got == "" {
				t.Error("GTIDs after a transaction: got none")
			}
		})
	}
}

func TestMySQLKeepsDataOverKillAndStop(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 3*time.Minute)
			my := servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", "MINIMAL"))
			db := my.NewDatabase(t)
			if got := myOne(t, ctx, my, db, "SELECT @@global.binlog_row_metadata"); got != "MINIMAL" {
				t.Errorf("binlog_row_metadata: got %s, want MINIMAL", got)
			}
			myExec(t, ctx, my, db, "CREATE TABLE n (i int PRIMARY KEY)")
			for i, end := range []func() error{my.Kill, my.Stop} {
				myExec(t, ctx, my, db, "INSERT INTO n SELECT COUNT(*) FROM n")
				if err := end(); err != nil {
					t.Fatalf("end server: %v", err)
				}
				if conn, err := my.Connect(ctx, db); err == nil {
					conn.Close()
					t.Fatal("connect to an ended server: got a connection")
				}
				if err := my.Start(); err != nil {
					t.Fatalf("start again: %v", err)
				}
				if got, want := myOne(t, ctx, my, db, "SELECT COUNT(*) FROM n"), string(rune('1'+i)); got != want {
					t.Errorf("rows after restart: got %s, want %s", got, want)
				}
			}
		})
	}
}

func TestMySQLServersDiffer(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			identity := "SELECT @@global.server_uuid"
			if kind == "mariadb" {
				identity = "SELECT @@global.server_id"
			}
			a := myOne(t, ctx, servers.SharedMySQL(t, kind), "", identity)
			b := myOne(t, ctx, servers.MySQL(t, kind), "", identity)
			if a == b {
				t.Errorf("%s: got %s twice, want two", identity, a)
			}
		})
	}
}

func TestMySQLDatabaseIsDroppedWithWhatHoldsIt(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			my := servers.SharedMySQL(t, kind)
			var db string
			t.Run("use", func(t *testing.T) {
				db = my.NewDatabase(t)
				conn, err := my.Connect(ctx, db)
				if err != nil {
					t.Fatal(err)
				}
				// Cut at the end of the subtest; what it prepared stays.
				for _, sql := range []string{"CREATE TABLE n (i int PRIMARY KEY)", "XA START '" + db + "'", "INSERT INTO n VALUES (1)",
					"XA END '" + db + "'", "XA PREPARE '" + db + "'"} {
					if _, err := conn.Execute(sql); err != nil {
						t.Fatalf("execute %q: %v", sql, err)
					}
				}
			})
			if got := myOne(t, ctx, my, "", "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '"+db+"'"); got != "0" {
				t.Errorf("databases named %s after the test: got %s, want 0", db, got)
			}
		})
	}
}
