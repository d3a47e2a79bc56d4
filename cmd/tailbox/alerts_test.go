package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/test/servers"
)

const alertsConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks:
  api: {kind: http, url: "${API_URL}", format: single}
  hook: {kind: http, url: "${HOOK}", format: single, bearer: "hook-secret"}
  room: {kind: slack, token: "xoxb-1", api_url: "${SLACK}", channel: C7}
  wall: {kind: slack, webhook_url: "${WALL}"}
  mail: {kind: smtp, address: "${SMTP}", from: relay@example.org, to: ops@example.org}
admin: {listen: "127.0.0.1:0", token: a-token-of-this-test, url: "https://relay.example"}
alerts: {to: [hook, room, wall, mail], steady: 1s, lagging: off, lag: off, no_leader: 1s, SETTINGS}
`

// A pager is an endpoint that notes the alerts that it took. While it is closed it answers 503.
type pager struct {
	mu     sync.Mutex
	closed bool
	bodies []string
	alerts []pagedAlert
}

type pagedAlert struct{ Alert, State, Sink, Text, Link string }

func (p *pager) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	var a pagedAlert
	switch {
	case err != nil || p.closed:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case json.Unmarshal(body, &a) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.bodies, p.alerts = append(p.bodies, string(body)), append(p.alerts, a)
}

func (p *pager) close(closed bool) { p.mu.Lock(); defer p.mu.Unlock(); p.closed = closed }

func (p *pager) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.bodies, "\n")
}

// states are those of an alert, in the order in which they came.
func (p *pager) states(alert string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var states []string
	for _, a := range p.alerts {
		if a.Alert == alert || a.Alert+" "+a.Sink == alert {
			states = append(states, a.State)
		}
	}
	return strings.Join(states, " ")
}

// An alertRig is a rig with everything that alerts are sent to.
type alertRig struct {
	*rig
	e          *endpoint
	hook, wall *pager
	room       *chat
	mails      *servers.MailServer
}

func newAlertRig(t *testing.T, settings string) *alertRig {
	t.Helper()
	r, e := newEndpointRig(t)
	a := &alertRig{rig: r, e: e, hook: &pager{}, wall: &pager{}, room: &chat{}, mails: servers.StartMail(t, servers.MailOptions{})}
	for name, h := range map[string]http.Handler{"HOOK": a.hook, "SLACK": a.room, "WALL": a.wall} {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		r.env[name] = server.URL
	}
	r.env["SMTP"] = a.mails.Addr()
	writeFile(t, r.file, strings.Replace(alertsConfig, "SETTINGS", settings, 1))
	return a
}

// paged waits until alerts went through the given states, and through no others.
func (a *alertRig) paged(states string, alerts ...string) {
	a.t.Helper()
	for _, one := range alerts {
		until(a.t, one+": "+states, func() bool { return len(a.hook.states(one)) >= len(states) })
		if got := a.hook.states(one); got != states {
			a.t.Errorf("%s: got %s, want %s\n%s", one, got, states, a.hook.said())
		}
	}
}

// Everything that can be produced fires once, and is over once.
func TestAlerts(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "retained_log: off, sink_failing: 1s, undelivered: 2s, held: 2s, backlog: 1, many_dead: 1, very_many_dead: 2, restarts: 2")
	stop := a.relay()
	a.send("t.bad", "g:1", `{"bad": "secret payload"}`)
	for range 3 {
		a.send("t", "g:1", "{}")
	}
	a.send("t.bad", "g:2", `{"bad": 1}`)
	a.send("t.bad", "g:3", `{"bad": 1}`)
	dead := []string{"dead_letters api", "many_dead", "very_many_dead", "held api", "backlog", "undelivered api"}
	a.paged("firing", dead...)
	a.e.forgive()
	a.must("dead", "replay", "--all", "--why", "fixed")
	a.paged("firing over", dead...)

	a.e.mu.Lock()
	a.e.down = true
	a.e.mu.Unlock()
	a.send("t", "h:1", "{}")
	a.paged("firing", "sink_failing api")
	a.e.mu.Lock()
	a.e.down = false
	a.e.mu.Unlock()
	a.paged("firing over", "sink_failing api")

	a.must("group", "hold", "g:9 <!channel>", "--sink", "api")
	a.paged("firing over firing", "held api")
	for range 2 {
		a.restart()
	}
	a.paged("firing", "restarts")
	// The next relay does not know what this one has sent: it says so.
	if got := stop(); got.code != exitDone || strings.Contains(got.err, "hook-secret") || strings.Contains(got.err, "xoxb-1") {
		t.Errorf("run: exit code %d\n%s", got.code, got.err)
	}
	a.paged("firing left", "restarts")
	a.paged("firing over firing left", "held api")
	a.arrivedEverywhere()
}

// restart ends the sessions of the relay, and waits until it reads again.
func (a *alertRig) restart() {
	a.t.Helper()
	a.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active", a.env["SLOT"])
	typ := "after.restart"
	before := strings.Count(a.e.got(), typ)
	a.send(typ, "h:1", "{}")
	until(a.t, "a message after the restart", func() bool { return strings.Count(a.e.got(), typ) > before })
}

// arrivedEverywhere wants the same alerts in every place, without payloads, answers and secrets, and with links to the console.
func (a *alertRig) arrivedEverywhere() {
	a.t.Helper()
	var mails strings.Builder
	for _, m := range a.mails.Mails() {
		mails.Write(m.Data)
		if strings.Join(m.To, " ") != "ops@example.org" {
			a.t.Errorf("a mail to %v", m.To)
		}
	}
	room := a.room.said()
	if !strings.Contains(room, "[tailbox shop] warning: 3 dead letters at sink api (causes since this relay began: permanent 3)") {
		a.t.Errorf("the channel got\n%s", room)
	}
	if !strings.Contains(mails.String(), "Subject: [tailbox shop] ") {
		a.t.Errorf("mails\n%s", mails.String())
	}
	for place, said := range map[string]string{"hook": a.hook.said(), "room": room, "wall": a.wall.said(), "mail": strings.ReplaceAll(mails.String(), "=\r\n", "")} {
		for _, want := range []string{"sink api takes nothing", "tailbox dead list", "https://relay.example/deliveries?sink"} {
			if !strings.Contains(said, want) {
				a.t.Errorf("%s: no %q in\n%s", place, want, said)
			}
		}
		for _, secret := range []string{"secret", "xoxb", "a-token", "127.0.0.1", "400 ", "503 ", "postgres://"} {
			if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(said, "X-Tailbox", ""), "Message-ID", ""), secret) {
				a.t.Errorf("%s: %q is in\n%s", place, secret, said)
			}
		}
		if (place == "room" || place == "wall") && strings.Contains(said, "<!channel>") {
			a.t.Errorf("%s: a group calls the whole channel:\n%s", place, said)
		}
	}
}

// The leader is killed: the standby says nothing before, takes over, sends again what holds, and says when it is over. What could not be sent meanwhile comes later, once.
func TestAlertsOfKilledLeader(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "retained_log: off, sink_failing: off, undelivered: off, many_dead: off, very_many_dead: off, restarts: off, held: off")
	leader := a.process("run")
	until(t, "a leader", func() bool { return strings.Contains(leader.printed(), "msg=tailing") })
	standby := a.process("run")
	until(t, "a standby", func() bool { return strings.Contains(standby.printed(), "standing by") })
	a.send("t.bad", "g:1", `{"bad": 1}`)
	a.paged("firing", "dead_letters")
	a.hook.close(true)
	if err := leader.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	leader.ends()
	until(t, "the standby tries to send", func() bool { return strings.Contains(standby.printed(), "alerts cannot be sent: trying again") })
	a.e.forgive()
	a.must("dead", "replay", "--all", "--why", "fixed")
	until(t, "it is over", func() bool { return strings.Contains(a.room.said(), "over: 1 dead letter") })
	a.hook.close(false)
	// The message that it fires again was not sent before it was over.
	a.paged("firing over", "dead_letters")
	if said := a.room.said(); strings.Count(said, "warning: 1 dead letter") != 2 {
		t.Errorf("the channel got\n%s", said)
	}
}

// A process that cannot relay says so, and says when it can.
func TestAlertWithoutLeader(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "restarts: off")
	if _, err := a.conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", pgstore.LockKey("shop")); err != nil {
		t.Fatal(err)
	}
	stop := a.relay()
	a.paged("firing", "no_leader")
	if said := a.hook.said(); !strings.Contains(said, "it is locked out") {
		t.Errorf("the reason is missing: %s", said)
	}
	a.sql("SELECT pg_advisory_unlock_all()")
	a.paged("firing over", "no_leader")
	stop()
}

// A slow sink fills the memory, so that reading falls behind; it catches up when the sink is fast again.
func TestAlertOfLag(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "retained_log: off, undelivered: off, restarts: off")
	slow := newSlowEndpoint()
	server := httptest.NewServer(slow)
	t.Cleanup(server.Close)
	t.Cleanup(slow.hurry)
	text := strings.Replace(alertsConfig, "lagging: off, lag: off, ", "lagging: 1s, lag: 2s, ", 1)
	text = strings.Replace(text, "format: single}\n  hook", "format: single, concurrency: 1}\n  hook", 1)
	text = strings.Replace(text, "SETTINGS", "retained_log: off, undelivered: off", 1)
	writeFile(t, a.file, text+"memory: 1MiB\n")
	a.env["API_URL"] = server.URL
	stop := a.relay()
	a.sql(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT gen_random_uuid(), 'g', 'g', 't', to_jsonb(repeat('x', 100000)) FROM generate_series(1, 60)`)
	a.paged("firing", "lagging", "lag")
	slow.hurry()
	a.paged("firing over", "lagging", "lag")
	stop()
}

// A slowEndpoint takes a moment for each message, until it hurries.
type slowEndpoint struct {
	hurried chan struct{}
	hurry   func()
}

func newSlowEndpoint() *slowEndpoint {
	e := &slowEndpoint{hurried: make(chan struct{})}
	e.hurry = sync.OnceFunc(func() { close(e.hurried) })
	return e
}

func (e *slowEndpoint) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	select {
	case <-e.hurried:
	case <-time.After(500 * time.Millisecond):
	}
}

// The log that the server keeps for the slot grows while a transaction is open, and shrinks afterwards.
func TestAlertOfLog(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "retained_log: 2MiB, undelivered: off")
	a.sql("CREATE TABLE noise (t text)")
	stop := a.relay()
	a.send("t", "h:1", "{}")
	until(t, "a message", func() bool { return a.e.got() != "" })
	a.sql("BEGIN")
	a.sql("INSERT INTO noise VALUES ('first')")
	for range 4 {
		a.sql("INSERT INTO noise SELECT repeat(md5(g::text), 30) FROM generate_series(1, 2000) g")
	}
	a.paged("firing", "retained_log")
	a.sql("COMMIT")
	until(t, "retained_log: over", func() bool {
		a.sql("SELECT pg_log_standby_snapshot()")
		return a.hook.states("retained_log") == "firing over"
	})
	stop()
}

// check names what is wrong with alerts, and sends a test.
func TestCheckAlerts(t *testing.T) {
	t.Parallel()
	a := newAlertRig(t, "restarts: off")
	out := a.must("check", "--send-alert")
	for _, name := range []string{"hook", "room", "wall", "mail"} {
		if !strings.Contains(out, "a test of alerts was sent through sink "+name) {
			t.Errorf("check: %s", out)
		}
	}
	if a.hook.states("test") != "test" || !strings.Contains(a.room.said(), "C7: [tailbox shop] test: alerts arrive here") || len(a.mails.Mails()) != 1 || a.wall.said() == "" {
		t.Errorf("arrived: %s\n%s\n%v\n%s", a.hook.said(), a.room.said(), a.mails.Mails(), a.wall.said())
	}
	a.hook.close(true)
	if got := a.command("check", "--send-alert"); got.code != exitFailed || !strings.Contains(got.out, "test of alerts: send through sink hook: ") || strings.Contains(got.out, "hook-secret") {
		t.Errorf("check: %+v", got)
	}
	if got := a.command("check", "--send-alert", "--offline"); got.code != exitUsage {
		t.Errorf("check: %+v", got)
	}
	text := strings.Replace(alertsConfig, ", channel: C7", "", 1)
	text = strings.Replace(text, ", to: ops@example.org", "", 1)
	writeFile(t, a.file, strings.Replace(text, "SETTINGS", "restarts: off", 1))
	got := a.command("check", "--offline")
	for _, want := range []string{`alerts.to[1] "room": has no channel of its own: give alerts a sink with a fixed one, such as channel: C0123, or with webhook_url`,
		`alerts.to[3] "mail": has no recipient of its own: give alerts a sink with a fixed one, such as to: ops@example.org`} {
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("check: %+v, want %s", got, want)
		}
	}
}
