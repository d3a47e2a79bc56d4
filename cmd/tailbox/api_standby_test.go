package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// A ledger is an endpoint that notes the types it took, in order. While it is cross it refuses all first messages of groups.
type ledger struct {
	cross atomic.Bool
	mu    sync.Mutex
	took  []string
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	typ := req.Header.Get("tailbox-type")
	if l.cross.Load() && strings.HasSuffix(typ, ".1") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, typ)
}

// firsts returns in which order the types came for the first time.
func (l *ledger) firsts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := make(map[string]int)
	for i, typ := range l.took {
		if _, again := at[typ]; !again {
			at[typ] = i
		}
	}
	return at
}

// A standby serves the API and the console. The leader is killed in the middle of a bulk replay: the request ends once, in order, and the console of the
// process that took over shows it.
func TestConsoleOfStandby(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	l := &ledger{}
	l.cross.Store(true)
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	r.env["API_URL"] = server.URL
	standby := newAPIRigOn(t, r, apiConfig)
	leader := standby.leader()
	r.sql(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT gen_random_uuid(), 'g', g::text, 'g' || g || '.' || n, '{}' FROM generate_series(1, $1::int) g, generate_series(1, 2) n ORDER BY n, g`, bulkGroups)
	until(t, "dead letters, and as many that wait", func() bool {
		states := r.parkedStates()
		return states["dead"] == bulkGroups && states["waiting"] == bulkGroups
	})
	b := standby.browser()
	b.send(http.MethodPost, "/login", map[string][]string{"token": {tokenOf("viewer")}})
	b.open("/deliveries")
	b.wants("permanent", ".1")
	l.cross.Store(false)
	asked := standby.ok("operator", "POST", "/deliveries:replay", map[string]any{"all": true, "why": "endpoint is fixed"})
	path := fmt.Sprintf("/requests/%v", asked.body["request"])
	var part float64
	until(t, "a part of the request", func() bool {
		part = standby.ok("viewer", "GET", path, nil).body["changed"].(float64)
		return part > 0
	})
	if err := leader.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := leader.ends(); got != -1 {
		t.Errorf("the leader has ended by itself: %d", got)
	}
	t.Logf("killed when %v of %d were changed", part, bulkGroups)
	if done := standby.done(asked); done["changed"] != float64(bulkGroups) || done["by"] != "olga" || done["error"] != nil {
		t.Errorf("request: %v", done)
	}
	until(t, "all deliveries", func() bool { return len(l.firsts()) == 2*bulkGroups })
	at := l.firsts()
	for g := 1; g <= bulkGroups; g++ {
		if first, second := at[fmt.Sprintf("g%d.1", g)], at[fmt.Sprintf("g%d.2", g)]; first > second {
			t.Errorf("group %d was overtaken: %d, %d", g, first, second)
		}
	}
	if n := standby.count(); n != 1 {
		t.Errorf("%d requests", n)
	}
	b.open("/audit" + strings.TrimPrefix(path, "/requests"))
	b.wants(fmt.Sprintf("%d changed", bulkGroups), "endpoint is fixed", "olga")
	until(t, "nothing is left", func() bool { return len(r.parkedStates()) == 0 })
}

// leader starts a process that takes the lock, and then the rig's own relay, which stands by and serves the API.
func (a *apiRig) leader() *process {
	a.t.Helper()
	own := a.env["ADMIN"]
	a.env["ADMIN"] = servers.FreeAddr(a.t)
	leader := a.process("run")
	until(a.t, "a leader", func() bool { return strings.Contains(leader.printed(), "msg=tailing") })
	a.env["ADMIN"] = own
	a.start()
	until(a.t, "a standby", func() bool {
		got := a.call("viewer", "GET", "/pipeline", nil)
		return got.status == http.StatusOK && got.body["running"] == true
	})
	return leader
}
