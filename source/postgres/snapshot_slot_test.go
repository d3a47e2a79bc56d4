package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

func TestEstablishWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	// A server of its own: a slot's creation waits for the transactions of all databases.
	r := newRig(t, servers.Postgres(t, "17"), smallDDL, shape("tailbox", "a"))
	writer := r.connect()
	exec := func(sql string) {
		t.Helper()
		if _, err := writer.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET application_name = 'the writer'")
	exec("BEGIN")
	exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.src.patience = slotPatience{warn: 100 * time.Millisecond, limit: 2 * time.Second}
	if _, err := r.src.Establish(context.Background()); err == nil || !strings.Contains(err.Error(), "the writer") {
		t.Fatalf("Establish returned %v", err)
	}
	r.src.patience.limit = patience
	type answer struct {
		snap source.Snapshot
		err  error
	}
	answers := make(chan answer, 1)
	warnings := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Count(r.log.String(), "waits for open transactions")
	}
	before := warnings()
	go func() {
		snap, err := r.src.Establish(context.Background())
		answers <- answer{snap, err}
	}()
	r.until("warning", func() bool { return warnings() > before })
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
	r := newRig(t, servers.Postgres(t, "16"), smallDDL, shape("tailbox", "a"))
	r.exec("CREATE ROLE poor LOGIN")
	r.cfg.URL = strings.Replace(r.cfg.URL, "postgres@", "poor@", 1)
	if !strings.Contains(r.cfg.URL, "poor") {
		r.cfg.URL += " user=poor"
	}
	r.src = New(r.cfg)
	_, err := r.src.Establish(context.Background())
	if err == nil || !strings.Contains(err.Error(), "WITH REPLICATION") {
		t.Errorf("Establish with %s returned %v", r.cfg.URL, err)
	}
}
