package admin_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/relay"
)

var update = flag.Bool("update", false, "write golden files")

// start serves metrics on a free port until the test ends.
func start(t *testing.T) (*admin.Metrics, string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := admin.NewMetrics(reg, admin.Labels{Pipeline: "orders", Sinks: []string{"kafka", "mail"}, Version: "v1", Commit: "abc",
		Routes: []admin.RouteLabels{{Name: "main", Sinks: []string{"kafka", "mail"}}, {Name: "mail", Sinks: []string{"mail"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := admin.Listen(ctx, admin.Config{Listen: "127.0.0.1:0", Gatherer: reg, Ready: m.Ready,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return m, "http://" + s.Addr()
}

func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

var (
	goVersion = regexp.MustCompile(`go="[^"]*"`)
	atTime    = regexp.MustCompile(`(_timestamp_seconds(?:\{[^}]*\})?) [^\n]*`)
)

// series lists what is exposed, without help and without histogram buckets.
func series(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, atTime.ReplaceAllString(goVersion.ReplaceAllString(line, `go="GO"`), "$1 TIME"))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestSeriesExistFromTheStart(t *testing.T) {
	t.Parallel()
	_, url := start(t)
	status, text := get(t, url+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	golden(t, "testdata/start.txt", series(text))
}

func TestEvents(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	e := m.Events()
	e.State("tailing", "")
	e.State("disconnected", "cut")
	e.State("sweeping", "")
	e.State("tailing", "")
	e.Received(3, 100, 2*time.Second)
	e.Delivered("kafka", "main", 2, 20*time.Millisecond)
	e.Answered("kafka", "", 2)
	e.Answered("mail", "throttled", 1)
	e.Called("kafka", 2, time.Millisecond)
	e.Parked("mail", checkpoint.StateRetrying, 1)
	e.Parked("", checkpoint.StateDead, 1)
	e.Dead("mail", "mail", "permanent", 1)
	e.Replayed(4)
	e.Skipped("gone", 5)
	e.Settled(2, time.Millisecond, true)
	e.SinkState("mail", "paused", "401")
	e.Gap("slot lost")
	e.Sampled(relay.Sample{Memory: 10, MemoryLimit: 20, CheckpointAge: time.Second,
		Sinks: map[string]relay.SinkSample{"mail": {State: "failing", Open: 1, Parked: 2, Held: 3, OldestUndelivered: 90 * time.Second}, "kafka": {State: "open", OldestUndelivered: time.Second}}})
	m.Ignored("update", 7)
	m.Observe(&admin.Status{RetainedBytes: 1000, LagBytes: 5, RetainedLimit: 4000, Lost: true, UncleanStarts: 2,
		Parked:    map[string]map[checkpoint.State]int64{"mail": {checkpoint.StateDead: 6}, "": {checkpoint.StateDead: 1}},
		OldestDue: map[string]time.Duration{"mail": time.Minute}, OldestHeld: map[string]time.Duration{"": time.Hour},
		OldestUndelivered: map[string]time.Duration{"mail": time.Minute, "kafka": 2 * time.Minute}})
	_, text := get(t, url+"/metrics", "")
	golden(t, "testdata/events.txt", series(text))

	// What is gone counts as none again.
	m.Observe(&admin.Status{})
	_, text = get(t, url+"/metrics", "")
	for _, want := range []string{`tailbox_source_lost{pipeline="orders"} 0`, `tailbox_source_retained_limit_bytes{pipeline="orders"} 0`, `tailbox_parked{pipeline="orders",sink="mail",state="dead"} 0`, `tailbox_unclean_starts_total{pipeline="orders"} 2`, `tailbox_oldest_due_age_seconds{pipeline="orders",sink="mail"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// A reader that is far behind is so also where what it reads has no messages, or where nothing comes for a while.
func TestLagStaysWhileBehind(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	e := m.Events()
	e.State("tailing", "")
	lag := func(want string) {
		t.Helper()
		if _, text := get(t, url+"/metrics", ""); !strings.Contains(text, `tailbox_source_lag_seconds{pipeline="orders"} `+want+"\n") {
			t.Errorf("lag is not %s", want)
		}
	}
	e.Received(1, 1<<30, time.Hour)
	e.Received(0, 1<<30, 0)
	lag("3600")
	e.Received(0, 1000, 0)
	lag("0")
}

// A relay that reads a log of which the server sends nothing falls behind, and is not ready.
func TestWaitingServerIsNotReady(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	m.Events().State("tailing", "")
	m.Observe(&admin.Status{LagBytes: 1000, Waiting: "standby_1 has no standby that reads it", WaitingFor: 2 * time.Hour})
	if ok, _, why := m.Ready(); ok || !strings.Contains(why, "standby_1 has no standby that reads it") {
		t.Errorf("ready %v, %q", ok, why)
	}
	_, text := get(t, url+"/metrics", "")
	for _, want := range []string{`tailbox_source_waiting{pipeline="orders"} 1`, `tailbox_source_lag_seconds{pipeline="orders"} 7200`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	m.Observe(&admin.Status{LagBytes: 1000})
	if ok, _, why := m.Ready(); !ok {
		t.Errorf("not ready once the standby is back: %q", why)
	}
	if _, text := get(t, url+"/metrics", ""); !strings.Contains(text, `tailbox_source_waiting{pipeline="orders"} 0`+"\n") {
		t.Error("tailbox_source_waiting stays")
	}
}

// Alerts take the greatest value of all processes: one that lost the lock says no longer what it was the leader of.
func TestStandbyForgetsWhatItLed(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	e := m.Events()
	has := func(when string, want ...string) {
		t.Helper()
		_, text := get(t, url+"/metrics", "")
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s: no %s", when, line)
			}
		}
	}
	e.State("tailing", "")
	e.Received(1, 1<<30, time.Hour)
	e.Sampled(relay.Sample{Memory: 10, MemoryLimit: 20, CheckpointAge: time.Second, Sinks: map[string]relay.SinkSample{"mail": {State: "failing", Parked: 2, Held: 3}}})
	e.State("disconnected", "cut")
	has("while nobody else has the lock", `tailbox_source_lag_seconds{pipeline="orders"} 3600`, `tailbox_sink_state{pipeline="orders",sink="mail",state="failing"} 1`)
	e.State("standby", "locked")
	has("as a standby", `tailbox_source_lag_seconds{pipeline="orders"} 0`, `tailbox_sink_state{pipeline="orders",sink="mail",state="failing"} 0`,
		`tailbox_lanes{pipeline="orders",sink="mail",state="held"} 0`, `tailbox_memory_bytes{pipeline="orders"} 0`, `tailbox_checkpoint_age_seconds{pipeline="orders"} 0`)
	m.Observe(&admin.Status{Waiting: "standby_1 is away", WaitingFor: time.Hour})
	has("while the server waits", `tailbox_source_lag_seconds{pipeline="orders"} 3600`)
	m.Observe(&admin.Status{})
	has("when the server sends again", `tailbox_source_lag_seconds{pipeline="orders"} 0`)
}

// A relay that can read nothing more is not ready, though it holds the lock and settles what it has read.
func TestStuckIsNotReady(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	e := m.Events()
	e.State("tailing", "")
	e.State("stuck", "the table is gone")
	if ok, _, why := m.Ready(); ok || why != "the table is gone" {
		t.Errorf("ready %v, %q", ok, why)
	}
	_, text := get(t, url+"/metrics", "")
	for _, want := range []string{`tailbox_source_connected{pipeline="orders"} 0`, `tailbox_leader{pipeline="orders"} 1`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	m, url := start(t)
	e := m.Events()
	for _, c := range []struct {
		state, why string
		want       int
		text       string
	}{
		{"", "", 503, "starting\n"}, {"connecting", "", 503, "connecting\n"}, {"tailing", "", 200, "tailing\n"}, {"disconnected", "no route to host", 503, "disconnected: no route to host\n"},
		{"standby", "locked", 200, "standby: locked\n"}, {"locked out", "by pid 1", 503, "locked out: by pid 1\n"}, {"sweeping", "", 200, "sweeping\n"}, {"stopped", "gap", 503, "stopped: gap\n"},
	} {
		if c.state != "" {
			e.State(c.state, c.why)
		}
		if status, text := get(t, url+"/readyz", ""); status != c.want || text != c.text {
			t.Errorf("state %q: readyz %d %q, want %d %q", c.state, status, text, c.want, c.text)
		}
		if status, text := get(t, url+"/healthz", ""); status != 200 || text != "ok\n" {
			t.Errorf("state %q: healthz %d %q", c.state, status, text)
		}
	}
	if status, _ := get(t, url+"/api/anything", "secret"); status != 404 {
		t.Errorf("there is no API: status %d", status)
	}
}

func TestListenTellsWhatToDo(t *testing.T) {
	t.Parallel()
	_, url := start(t)
	_, err := admin.Listen(t.Context(), admin.Config{Listen: strings.TrimPrefix(url, "http://"), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "address already in use: choose another admin.listen, or off") {
		t.Errorf("error %v", err)
	}
}

func TestTwiceIsAnError(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	if _, err := admin.NewMetrics(reg, admin.Labels{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.NewMetrics(reg, admin.Labels{}); err == nil {
		t.Error("no error")
	}
}
