package mysql

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// An account with the privileges that RoleSQL grants, and no others, can do all that the relay does; without them Check says
// what is missing.
func TestInitAndCheckWithLeastPrivilege(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		my := servers.SharedMySQL(t, kind)
		r := rigWithSource(t, my, newSource)
		r.exec("DROP TABLE outbox, tailbox_checkpoint, tailbox_parked, tailbox_request")
		root := r.cfg
		debezium := shaped("debezium", "second")
		debezium.Schema = r.db
		root.Tables = append(root.Tables, debezium.Table)
		created, err := Init(r.ctx, root)
		if err != nil || len(created) != 5 {
			t.Fatalf("init: created %v, %v", created, err)
		}
		if created, err := Init(r.ctx, root); err != nil || len(created) != 0 {
			t.Fatalf("second init: created %v, %v", created, err)
		}
		script, err := SetupScript(root)
		if err != nil {
			t.Fatal(err)
		}
		for sql := range strings.SplitSeq(script, ";\n") {
			if strings.TrimSpace(sql) != "" {
				r.exec(sql) // can be run again
			}
		}
		name := r.db[len(r.db)-8:] + "_relay"
		r.exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'pass'", name), fmt.Sprintf("GRANT SELECT ON `%s`.`outbox` TO '%s'@'%%'", r.db, name))
		poor := root
		u, err := url.Parse(my.SocketURL(r.db))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, "pass")
		poor.URL = u.String()
		findings, err := Check(r.ctx, poor)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(findings)
		for _, want := range []string{"REPLICATION SLAVE", "tailbox_checkpoint", "GRANT UPDATE"} {
			if !strings.Contains(text, want) {
				t.Errorf("check without privileges: got %s, want %q in it", text, want)
			}
		}
		for sql := range strings.SplitSeq(RoleSQL(root, "'"+name+"'@'%'", r.db), ";\n") {
			if strings.TrimSpace(sql) != "" {
				r.exec(sql)
			}
		}
		if findings, err = Check(r.ctx, poor); err != nil || countProblems(findings) != 0 {
			t.Errorf("check with privileges: %v, %v", findings, err)
		}
		r.src = New(poor)
		from := r.establish()
		x := r.run(from)
		r.exec(insert(1))
		x.until("1")
		x.stop()
		st, err := Open(r.ctx, poor)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Load(r.ctx); err != nil {
			t.Fatal(err)
		}
		if err := st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: strings.Fields(string(x.resume))[2], Resume: x.resume, Log: 1}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Uninstall(r.ctx, root, false); !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("uninstall beside a relay: %v", err)
		}
		if err := st.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		if gap, err := Gap(r.ctx, poor); err != nil || gap != nil {
			t.Errorf("gap: %+v, %v", gap, err)
		}
		r.exec(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic)
			SELECT pipeline, 'out', 'outbox', '', '0', '1', 'dead', FALSE, FALSE, '', '' FROM tailbox_checkpoint`)
		for range 30 { // none leaves the pipeline's lock to a session that the server has yet to end
			if _, _, err := Uninstall(r.ctx, root, false); err == nil || !strings.Contains(err.Error(), "would be lost") {
				t.Fatalf("uninstall with a dead letter: %v", err)
			}
		}
		r.exec("DELETE FROM tailbox_parked")
		if dropped, _, err := Uninstall(r.ctx, root, false); err != nil || len(dropped) != 1 {
			t.Errorf("uninstall: %v, %v", dropped, err)
		}
	})
}

func countProblems(findings []store.Finding) (n int) {
	for _, f := range findings {
		if f.Level == store.Problem {
			n++
		}
	}
	return n
}

// Check names what is wrong, all at once, and Init refuses to begin.
func TestCheckFindsProblems(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := rigWithSource(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_image", "MINIMAL"), servers.WithSetting("sync_binlog", "0")), newSource)
		r.exec("ALTER TABLE outbox DROP KEY idempotency_key, ENGINE=MyISAM", "ALTER TABLE outbox MODIFY topic VARCHAR(20) CHARACTER SET cp1250, DROP PRIMARY KEY", insert(1))
		r.cfg.Tables = append(r.cfg.Tables, outbox.Table{Schema: r.db, Name: "gone", Shape: "other", Columns: outbox.Columns{ID: "id", Type: "t", Payload: "p"}})
		findings, err := Check(r.ctx, r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(findings)
		for _, want := range []string{"binlog_row_image", "sync_binlog", "ENGINE = InnoDB", "cp1250", "ADD UNIQUE KEY", "gone"} {
			if !strings.Contains(text, want) {
				t.Errorf("check: got %s, want %q in it", text, want)
			}
		}
		if _, err := Init(r.ctx, r.cfg); err == nil || !strings.Contains(err.Error(), "nothing was created") {
			t.Errorf("init: %v", err)
		}
		wrong := r.cfg
		wrong.Kind = map[string]string{KindMySQL: KindMariaDB, KindMariaDB: KindMySQL}[kind]
		if _, err := wrong.connect(r.ctx, wrong.URL); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "source.kind") {
			t.Errorf("connect to the other kind: %v", err)
		}
	})
}

// A server that knows names in small letters alone finds a table by another name than the log has: the configuration has to have that.
func TestNamesInSmallLetters(t *testing.T) {
	t.Parallel()
	r := rigWithSource(t, servers.MySQL(t, KindMariaDB, servers.WithSetting("lower_case_table_names", "1")), newSource)
	r.cfg.Tables[0].Name = "OutBox"
	const cure = "write it so in source.tables"
	if snap, err := New(r.cfg).Establish(r.ctx); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), cure) {
		t.Errorf("establish: %v, %v", snap, err)
	}
	if findings, err := Check(r.ctx, r.cfg); err != nil || !strings.Contains(fmt.Sprint(findings), cure) {
		t.Errorf("check: %v, %v", findings, err)
	}
	if st, err := Open(r.ctx, r.cfg); err == nil {
		_, err = st.Load(r.ctx)
		if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), cure) {
			t.Errorf("store: %v", err)
		}
		_ = st.Close(r.ctx)
	} else if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), cure) {
		t.Errorf("open a store: %v", err)
	}
}

// Members of a cluster do not know of each other's locks: check tells what to connect to.
func TestCheckNamesSeveralWriters(t *testing.T) {
	t.Parallel()
	r := rigWithSource(t, servers.MySQL(t, KindMariaDB, servers.WithSetting("wsrep_on", "ON")), newSource)
	findings, err := Check(r.ctx, r.cfg)
	if text := fmt.Sprint(findings); err != nil || !strings.Contains(text, "one and the same member") {
		t.Errorf("check: %s, %v", text, err)
	}
}

// A gap names the tables that the next start cannot sweep: also one whose shape has a status column that the table does not.
func TestGapNamesWhatNothingJudges(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		t.Helper()
		kept, deleted := storeShape("tailbox", "kept"), storeShape("debezium", "deleted")
		kept.OnDelivered = outbox.Keep
		r := loadedRig(t, my, Open, nil, storeShape("tailbox", "marked"), kept, deleted)
		r.exec("ALTER TABLE kept DROP KEY kept_pending, DROP COLUMN status, DROP COLUMN delivered_at")
		if err := r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "s", Resume: poll.FormatResume(1, ""), Log: 1, LastCommit: 1}); err != nil {
			t.Fatal(err)
		}
		gap, err := Gap(r.ctx, r.cfg)
		if err != nil || gap == nil || len(gap.Unjudged) != 1 || gap.Unjudged[0] != r.db+".kept" {
			t.Errorf("gap %+v, %v, want %s.kept unjudged", gap, err, r.db)
		}
	})
}

func newSource(cfg config) source.Source { return New(cfg) }
