package admin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/relay"
)

// What the metrics know of the relay of this process can be asked for: its part, its lag, how often it began again, and what died.
func TestProcess(t *testing.T) {
	t.Parallel()
	m, err := admin.NewMetrics(prometheus.NewRegistry(), admin.Labels{Pipeline: "shop", Sinks: []string{"api"}})
	if err != nil {
		t.Fatal(err)
	}
	e := m.Events()
	got := []admin.Process{m.Process()}
	note := func() { got = append(got, m.Process()) }
	e.State("standby", "another relay")
	note()
	e.State("sweeping", "")
	e.State("tailing", "")
	e.Received(1, 100, 3*time.Second)
	e.Dead("api", "all", "permanent", 2)
	e.Dead("api", "all", "permanent", 1)
	e.Sampled(relay.Sample{Sinks: map[string]relay.SinkSample{"api": {State: "open", OldestUndelivered: time.Minute}}})
	m.Observe(&admin.Status{RetainedBytes: -1, LagBytes: -1, OldestUndelivered: map[string]time.Duration{"api": time.Second}})
	note()
	e.State("disconnected", "")
	note()
	e.State("tailing", "")
	note()
	e.State("connecting", "")
	m.Reloaded(admin.Labels{Pipeline: "shop", Sinks: []string{"api"}})
	e.State("tailing", "")
	note()
	e.State("stopped", "")
	note()
	died := map[string]map[string]int{"api": {"permanent": 3}}
	age := func(d time.Duration) map[string]time.Duration { return map[string]time.Duration{"api": d, "": 0} }
	none := map[string]map[string]int{}
	want := []admin.Process{
		{State: "starting", Undelivered: map[string]time.Duration{}, Dead: none},
		{State: "standby", StandingBy: true, Undelivered: map[string]time.Duration{}, Dead: none},
		{State: "tailing", Reading: true, Lag: 3 * time.Second, Undelivered: age(time.Minute), Dead: died},
		{State: "disconnected", Lag: 3 * time.Second, Undelivered: age(time.Second), Dead: died},
		{State: "tailing", Reading: true, Lag: 3 * time.Second, Restarts: 1, Undelivered: age(time.Second), Dead: died},
		{State: "tailing", Reading: true, Lag: 3 * time.Second, Restarts: 1, Undelivered: age(time.Second), Dead: died},
		{State: "stopped", Stopped: true, Lag: 3 * time.Second, Restarts: 1, Undelivered: age(time.Second), Dead: died},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
}
