package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/internal/config"
)

const withAlerts = `
source: {kind: postgres, url: "dbname=x"}
sinks: {out: {kind: stdout}, ops: {kind: slack}, hook: {kind: http}}
routes: [{to: [out]}]
alerts: %s
`

func readAlerts(t *testing.T, text string) (config.Alerts, string) {
	t.Helper()
	c, f, err := config.Read("x.yaml", fmt.Appendf(nil, withAlerts, text), environment())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Err(); err != nil {
		return c.Alerts, err.Error()
	}
	return c.Alerts, ""
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	a, problems := readAlerts(t, "{to: ops}")
	if problems != "" || len(a.To) != 1 || a.Repeat != 4*time.Hour || a.Steady != time.Minute || a.Limits != alert.DefaultLimits() {
		t.Errorf("defaults %+v\n%s", a, problems)
	}
	a, problems = readAlerts(t, "{to: [ops, hook], repeat: off, steady: 0s, sink_failing: 2m, dead_letters: 5, lag: off, retained_log: 2GiB, retained_share: 80%, restarts: 1}")
	want := alert.DefaultLimits()
	want[alert.SinkFailing].Value, want[alert.DeadLetters].Value, want[alert.Lag] = int64(2*time.Minute), 5, alert.Limit{Off: true}
	want[alert.RetainedLog].Value, want[alert.RetainedShare].Value, want[alert.Restarts].Value = 2<<30, 80, 1
	if problems != "" || len(a.To) != 2 || a.Repeat != 0 || a.Steady != 0 || a.Limits != want {
		t.Errorf("set %+v\n%s", a, problems)
	}
}

// Each error names the key, the value and the fix.
func TestWrongAlerts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":                                 "alerts.to: is missing: list the sinks that alerts are sent through, of kind http, slack, smtp",
		"{to: [opps]}":                       `alerts.to[0] "opps": is not the name of a sink: declare it under sinks (allowed: out, ops, hook); did you mean ops?`,
		"{to: [ops, out]}":                   `alerts.to[1] "out": is a sink of kind stdout, through which no alert can be sent: name one of kind http, slack, smtp`,
		"{to: [ops, ops]}":                   `alerts.to[1] "ops": stands twice: keep one`,
		"{to: ops, repeat: 0s}":              `alerts.repeat "0s": must be above 0s, or off`,
		"{to: ops, repeat: often}":           `alerts.repeat "often": must be a duration such as 500ms, 30s or 1m30s, and not negative, or off`,
		"{to: ops, lag: 10}":                 `alerts.lag "10": must be a duration such as 500ms, 30s or 1m30s, and not negative, or off`,
		"{to: ops, held: 0s}":                `alerts.held "0s": must be above 0s, or off`,
		"{to: ops, dead_letters: -1}":        `alerts.dead_letters "-1": must be a number of at least 0, or off`,
		"{to: ops, restarts: 0}":             `alerts.restarts "0": must be a number of at least 1, or off`,
		"{to: ops, retained_log: 0}":         `alerts.retained_log "0": must be a size above 0 such as 1GiB, or off`,
		"{to: ops, retained_share: 0.5}":     `alerts.retained_share "0.5": must be a share from 1% to 100%, or off`,
		"{to: ops, retained_share: 101%}":    `alerts.retained_share "101%": must be a share from 1% to 100%, or off`,
		"{to: ops, sink_fails: 1m}":          `alerts.sink_fails: unknown key (allowed: to, repeat, steady, sink_failing, dead_letters`,
		"{to: ops, sink_failing: {for: 1m}}": `alerts.sink_failing: must be one value, not a list or mapping`,
	} {
		if _, problems := readAlerts(t, text); !strings.Contains(problems, "x.yaml:5: "+want) {
			t.Errorf("alerts: %s:\n got %s\nwant %s", text, problems, want)
		}
	}
}

// A sink that is there for alerts alone needs no route, and gets no messages.
func TestAlertsNeedNoRoute(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sinks, to, want string }{
		{"{out: {kind: stdout}, ops: {kind: slack}}", "[ops]", "out: out"},
		{"{out: {kind: stdout}, ops: {kind: slack}, mail: {kind: smtp}}", "[mail, ops]", "out: out"},
		{"{out: {kind: http}}", "[out]", "out: out"},
		{"{out: {kind: stdout}, other: {kind: stdout}, ops: {kind: slack}}", "[ops]", "routes: is missing"},
		{"{out: {kind: http}, other: {kind: http}}", "[out, other]", "routes: is missing"},
	} {
		c, f, err := config.Read("x.yaml", []byte("source: {kind: postgres, url: dbname=x}\nsinks: "+test.sinks+"\nalerts: {to: "+test.to+"}\n"), environment())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := f.Err(); err != nil {
			got = err.Error()
		} else {
			for _, r := range c.Router.Routes() {
				got += r.Name + ": " + strings.Join(r.To, " ")
			}
			if n := len(c.Router.Sinks()); n != len(c.Sinks) {
				t.Errorf("%s: the router knows %d of %d sinks", test.sinks, n, len(c.Sinks))
			}
		}
		if got != test.want && !strings.Contains(got, " "+test.want) {
			t.Errorf("%s: got %q, want %q", test.sinks, got, test.want)
		}
	}
}

func TestConsoleURL(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"https://relay.example": true, "http://10.0.0.5:8480/tailbox/": true, "relay.example": false, "https://ana:secret@relay.example": false,
		"https://relay.example?token=secret": false, "ftp://relay.example": false} {
		c, f, err := config.Read("x.yaml", []byte("source: {kind: postgres, url: dbname=x}\nsinks: {out: {kind: stdout}}\nadmin: {url: \""+text+"\"}\n"), environment())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Err() == nil; got != ok || ok && c.Admin.URL != text {
			t.Errorf("admin.url %s: %v", text, f.Err())
		} else if !ok && strings.Contains(f.Err().Error(), "secret") {
			t.Errorf("admin.url: the error shows a secret: %v", f.Err())
		}
	}
}
