package stream_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/test/servers"
)

func TestEstablishWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	// A server of its own: a slot's creation waits for the transactions of all databases.
	r := pgtest.NewRig(t, servers.Postgres(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	writer := r.Connect()
	exec := func(sql string) {
		t.Helper()
		if _, err := writer.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET application_name = 'the writer'")
	exec("BEGIN")
	exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.Src.SetPatience(upstream.Patience{Warn: 100 * time.Millisecond, Limit: 2 * time.Second})
	if _, err := r.Src.Establish(context.Background()); err == nil || !strings.Contains(err.Error(), "the writer") {
		t.Fatalf("Establish returned %v", err)
	}
	// The server drops what was half made a moment after the client gave up; until then the slot looks like somebody else's.
	r.Until("no slot", func() bool { return r.Text("SELECT count(*)::text FROM pg_replication_slots") == "0" })
	r.Src.SetPatience(upstream.Patience{Warn: 100 * time.Millisecond, Limit: pgtest.Patience})
	type answer struct {
		snap source.Snapshot
		err  error
	}
	answers := make(chan answer, 1)
	warnings := func() int {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return strings.Count(r.Log.String(), "waits for open transactions")
	}
	before := warnings()
	go func() {
		snap, err := r.Src.Establish(context.Background())
		answers <- answer{snap, err}
	}()
	r.Until("warning", func() bool { return warnings() > before })
	exec("COMMIT")
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer func() { _ = a.snap.Close(context.Background()) }()
	if sweep, err := a.snap.Judge(context.Background(), source.Known{AcceptGap: true}); err != nil || sweep {
		t.Errorf("Judge returned %v, %v for a table of shape tailbox without status column", sweep, err)
	}
}

func TestRoleWithoutReplication(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Postgres(t, "16"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	r.Exec("CREATE ROLE poor LOGIN")
	r.Cfg.URL = strings.Replace(r.Cfg.URL, "postgres@", "poor@", 1)
	if !strings.Contains(r.Cfg.URL, "poor") {
		r.Cfg.URL += " user=poor"
	}
	r.Src = stream.New(r.Cfg)
	_, err := r.Src.Establish(context.Background())
	if err == nil || !strings.Contains(err.Error(), "WITH REPLICATION") {
		t.Errorf("Establish with %s returned %v", r.Cfg.URL, err)
	}
}
