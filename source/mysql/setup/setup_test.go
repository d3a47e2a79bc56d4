package setup

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/operator"
	"github.com/tailbox/tailbox/source/mysql/server"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/stream"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/test/servers"
)

// An account with the privileges that RoleSQL grants, and no others, can do all that the relay does; without them Check says
// what is missing.
func TestInitAndCheckWithLeastPrivilege(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		my := servers.SharedMySQL(t, kind)
		r := mysqltest.NewSourceRig(t, my, newSource)
		r.Exec("DROP TABLE outbox, tailbox_checkpoint, tailbox_parked, tailbox_request")
		root := r.Cfg
		debezium := mysqltest.Shaped("debezium", "second")
		debezium.Schema = r.DB
		root.Tables = append(root.Tables, debezium.Table)
		created, err := Init(r.Ctx, root)
		if err != nil || len(created) != 5 {
			t.Fatalf("init: created %v, %v", created, err)
		}
		if created, err := Init(r.Ctx, root); err != nil || len(created) != 0 {
			t.Fatalf("second init: created %v, %v", created, err)
		}
		script, err := Script(root)
		if err != nil {
			t.Fatal(err)
		}
		for sql := range strings.SplitSeq(script, ";\n") {
			if strings.TrimSpace(sql) != "" {
				r.Exec(sql) // can be run again
			}
		}
		name := r.DB[len(r.DB)-8:] + "_relay"
		r.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'pass'", name), fmt.Sprintf("GRANT SELECT ON `%s`.`outbox` TO '%s'@'%%'", r.DB, name))
		poor := root
		u, err := url.Parse(my.SocketURL(r.DB))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, "pass")
		poor.URL = u.String()
		findings, err := Check(r.Ctx, poor)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(findings)
		for _, want := range []string{"REPLICATION SLAVE", "tailbox_checkpoint", "GRANT UPDATE"} {
			if !strings.Contains(text, want) {
				t.Errorf("check without privileges: got %s, want %q in it", text, want)
			}
		}
		for sql := range strings.SplitSeq(RoleSQL(root, "'"+name+"'@'%'", r.DB), ";\n") {
			if strings.TrimSpace(sql) != "" {
				r.Exec(sql)
			}
		}
		if findings, err = Check(r.Ctx, poor); err != nil || mysqltest.CountProblems(findings) != 0 {
			t.Errorf("check with privileges: %v, %v", findings, err)
		}
		r.Src = stream.New(poor)
		from := r.Establish()
		x := r.Run(from)
		r.Exec(mysqltest.Insert(1))
		x.Until("1")
		x.Stop()
		st, err := mystore.Open(r.Ctx, poor)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Load(r.Ctx); err != nil {
			t.Fatal(err)
		}
		if err := st.Save(r.Ctx, &checkpoint.Checkpoint{SourceID: strings.Fields(string(x.Resume))[2], Resume: x.Resume, Log: 1}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Uninstall(r.Ctx, root, false); !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("uninstall beside a relay: %v", err)
		}
		if err := st.Close(r.Ctx); err != nil {
			t.Fatal(err)
		}
		if gap, err := operator.Gap(r.Ctx, poor); err != nil || gap != nil {
			t.Errorf("gap: %+v, %v", gap, err)
		}
		r.Exec(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, changed_at)
			SELECT pipeline, 'out', 'outbox', '', '0', '1', 'dead', FALSE, FALSE, '', '', UTC_TIMESTAMP(6) FROM tailbox_checkpoint`)
		for range 30 { // none leaves the pipeline's lock to a session that the server has yet to end
			if _, _, err := Uninstall(r.Ctx, root, false); err == nil || !strings.Contains(err.Error(), "would be lost") {
				t.Fatalf("uninstall with a dead letter: %v", err)
			}
		}
		r.Exec("DELETE FROM tailbox_parked")
		if dropped, _, err := Uninstall(r.Ctx, root, false); err != nil || len(dropped) != 1 {
			t.Errorf("uninstall: %v, %v", dropped, err)
		}
	})
}

// Check names what is wrong, all at once, and Init refuses to begin.
func TestCheckFindsProblems(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := mysqltest.NewSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_image", "MINIMAL"), servers.WithSetting("sync_binlog", "0")), newSource)
		r.Exec("ALTER TABLE outbox DROP KEY idempotency_key, ENGINE=MyISAM", "ALTER TABLE outbox MODIFY topic VARCHAR(20) CHARACTER SET cp1250, DROP PRIMARY KEY", mysqltest.Insert(1))
		r.Cfg.Tables = append(r.Cfg.Tables, outbox.Table{Schema: r.DB, Name: "gone", Shape: "other", Columns: outbox.Columns{ID: "id", Type: "t", Payload: "p"}})
		findings, err := Check(r.Ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(findings)
		for _, want := range []string{"binlog_row_image", "sync_binlog", "ENGINE = InnoDB", "cp1250", "ADD UNIQUE KEY", "gone"} {
			if !strings.Contains(text, want) {
				t.Errorf("check: got %s, want %q in it", text, want)
			}
		}
		if _, err := Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), "nothing was created") {
			t.Errorf("init: %v", err)
		}
		wrong := r.Cfg
		wrong.Kind = map[string]string{server.KindMySQL: server.KindMariaDB, server.KindMariaDB: server.KindMySQL}[kind]
		if _, err := wrong.Connect(r.Ctx, wrong.URL); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "source.kind") {
			t.Errorf("connect to the other kind: %v", err)
		}
	})
}

// A server that knows names in small letters alone finds a table by another name than the log has: the configuration has to have that.
func TestNamesInSmallLetters(t *testing.T) {
	t.Parallel()
	r := mysqltest.NewSourceRig(t, servers.MySQL(t, server.KindMariaDB, servers.WithSetting("lower_case_table_names", "1")), newSource)
	r.Cfg.Tables[0].Name = "OutBox"
	const fix = "write it so in source.tables"
	if snap, err := stream.New(r.Cfg).Establish(r.Ctx); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
		t.Errorf("establish: %v, %v", snap, err)
	}
	if findings, err := Check(r.Ctx, r.Cfg); err != nil || !strings.Contains(fmt.Sprint(findings), fix) {
		t.Errorf("check: %v, %v", findings, err)
	}
	if st, err := mystore.Open(r.Ctx, r.Cfg); err == nil {
		_, err = st.Load(r.Ctx)
		if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
			t.Errorf("store: %v", err)
		}
		_ = st.Close(r.Ctx)
	} else if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
		t.Errorf("open a store: %v", err)
	}
}

// Members of a cluster do not know of each other's locks: check tells what to connect to.
func TestCheckNamesSeveralWriters(t *testing.T) {
	t.Parallel()
	r := mysqltest.NewSourceRig(t, servers.MySQL(t, server.KindMariaDB, servers.WithSetting("wsrep_on", "ON")), newSource)
	findings, err := Check(r.Ctx, r.Cfg)
	if text := fmt.Sprint(findings); err != nil || !strings.Contains(text, "one and the same member") {
		t.Errorf("check: %s, %v", text, err)
	}
}

// A gap names the tables that the next start cannot sweep: also one whose shape has a status column that the table does not.
func TestGapNamesWhatNothingJudges(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		t.Helper()
		kept, deleted := mysqltest.StoreShape("tailbox", "kept"), mysqltest.StoreShape("debezium", "deleted")
		kept.OnDelivered = outbox.Keep
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("tailbox", "marked"), kept, deleted)
		r.Exec("ALTER TABLE kept DROP KEY kept_pending, DROP COLUMN status, DROP COLUMN delivered_at")
		if err := r.St.Save(r.Ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: poll.FormatResume(1, ""), Log: 1, LastCommit: 1}); err != nil {
			t.Fatal(err)
		}
		gap, err := operator.Gap(r.Ctx, r.Cfg)
		if err != nil || gap == nil || len(gap.Unjudged) != 1 || gap.Unjudged[0] != r.DB+".kept" {
			t.Errorf("gap %+v, %v, want %s.kept unjudged", gap, err, r.DB)
		}
	})
}

func newSource(cfg server.Config) source.Source { return stream.New(cfg) }
