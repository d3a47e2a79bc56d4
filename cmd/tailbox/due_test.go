package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestDueAtOnce: rows whose time is that of their insert stay in the order of their group, also while one of them is retried. MariaDB's log has the second
// of a commit only.
func TestDueAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testDueAtOnce(t, kind)
		})
	}
}

func testDueAtOnce(t *testing.T, kind string) {
	var mu sync.Mutex
	var accepted []string
	failures := map[string]int{"1-2": 2, "3-1": 2, "4-6": 1}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if name := strings.Trim(string(body), `"`); failures[name] > 0 {
			failures[name]--
			w.WriteHeader(http.StatusInternalServerError)
		} else {
			accepted = append(accepted, name)
		}
	}))
	t.Cleanup(hook.Close)
	r, exec := newRigOn(t, kind, "pipeline: shop\nsource:\n  kind: "+kind+"\n  url: \"${DATABASE_URL}\"\n  tables: [{name: outbox, shape: tailbox, columns: {status: null}, on_delivered: keep}]\n"+
		"sinks: {out: {kind: http, url: \""+hook.URL+"\", format: single}}\nretry: {attempts: 9, schedule: [10ms]}\nadmin: {listen: \"off\"}\n")
	now, at := "clock_timestamp()", "timestamptz"
	if kind != "postgres" {
		now, at = "NOW(6)", "datetime(6)"
	}
	exec("CREATE TABLE outbox (id int PRIMARY KEY, type varchar(40) NOT NULL, message_group varchar(40), payload varchar(40), available_at " + at + " NOT NULL)")
	r.must("init")
	stop := r.relay()
	var want []string
	for batch := range 6 {
		var rows []string
		for n := range 6 {
			name := string(rune('0'+batch)) + "-" + string(rune('1'+n))
			want = append(want, name)
			rows = append(rows, "("+string(rune('1'+batch))+string(rune('0'+n))+", 'a', 'g', '\""+name+"\"', "+now+")")
		}
		exec("INSERT INTO outbox (id, type, message_group, payload, available_at) VALUES " + strings.Join(rows, ", "))
		until(t, "the batch", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(accepted) == len(want)
		})
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	if !slices.Equal(accepted, want) {
		t.Errorf("accepted %v", accepted)
	}
}
