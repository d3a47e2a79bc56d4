package alert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/report"
)

// start is when scripts begin.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// A script is a line a look: the seconds since the start, a role, and facts such as fail:a, dead:a=3, age:a=400 (seconds), lag=70, back:a=2000, log=5, max=8
// (GiB), held:a=4000, hold:a/g, again=2, crash=4, cause:a/permanent=2, or nodb. It returns what was sent: seconds, kind and subject.
func script(t *testing.T, c Config, lines string) (sent []string) {
	t.Helper()
	w := NewWatch(c)
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		f := factsOf(t, words[1:])
		for _, m := range w.Look(start().Add(time.Duration(at)*time.Second), f) {
			text := fmt.Sprintf("%d %s %s", at, m.Kind, m.Condition)
			if m.Sink != "" {
				text += " " + m.Sink
			}
			sent = append(sent, text)
		}
	}
	return sent
}

func factsOf(t *testing.T, words []string) *Facts {
	t.Helper()
	f := &Facts{Failing: map[string]bool{}, Undelivered: map[string]time.Duration{}, Causes: map[string]map[string]int{}}
	r := &report.Report{Checkpoint: &report.Checkpoint{UncleanStarts: 1}}
	f.Status = report.NewStatus(r, nil)
	sinks := map[string]*report.SinkCount{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		kind, of, _ := strings.Cut(name, ":")
		of, part, _ := strings.Cut(of, "/")
		n, _ := strconv.Atoi(value) // those without a number need none
		if sinks[of] == nil {
			sinks[of] = &report.SinkCount{Sink: of}
		}
		switch kind {
		case "leads":
			f.Role = Leading
		case "stands":
			f.Role = StandingBy
		case "idle":
			f.Role = Idle
		case "ends":
			f.Role = Ending
		case "nodb":
			defer func() { f.Status = nil }()
		case "fail":
			f.Failing[of] = true
		case "age":
			f.Undelivered[of] = time.Duration(n) * time.Second
		case "lag":
			f.Lag = time.Duration(n) * time.Second
		case "again":
			f.Restarts = n
		case "cause":
			f.Causes[of] = map[string]int{part: n}
		case "dead":
			sinks[of].Dead = n
		case "back":
			sinks[of].Retrying, sinks[of].Waiting = n/2, n-n/2
		case "held":
			sinks[of].HeldSeconds, sinks[of].HeldLanes = float64(n), 1
		case "hold":
			r.Held = append(r.Held, checkpoint.Lane{Sink: of, Group: part})
		case "log":
			f.Status.RetainedBytes = int64(n) << 30
		case "max":
			f.Status.RetainedLimit = int64(n) << 30
		case "crash":
			r.Checkpoint.UncleanStarts = n + 1
		default:
			t.Fatalf("no such fact: %s", word)
		}
	}
	for _, c := range sinks {
		r.Sinks = append(r.Sinks, *c)
	}
	return f
}

func TestScripts(t *testing.T) {
	t.Parallel()
	plain := Config{Sinks: []string{"a", "b"}, Limits: DefaultLimits(), Repeat: time.Hour, Steady: time.Minute}
	off := plain
	for c := range off.Limits {
		off.Limits[c].Off = true
	}
	never := plain
	never.Repeat = 0
	everything := "leads fail:a dead:a=200 age:a=4000 lag=100 back:a=5000 held:a=9000 log=9 max=10 again=9 crash=9"
	for name, c := range map[string]struct {
		config Config
		lines  string
		want   string
	}{
		"a sink fails for its time":         {plain, "0 leads\n100 leads fail:a\n159 leads fail:a\n160 leads fail:a\n170 leads fail:a", "160 firing sink_failing a"},
		"a sink recovers in time":           {plain, "0 leads\n100 leads fail:a\n159 leads\n160 leads fail:a\n200 leads", ""},
		"over after a steady minute":        {plain, "0 leads\n90 leads dead:a=1\n100 leads\n159 leads\n160 leads\n300 leads", "90 firing dead_letters a, 160 over dead_letters a"},
		"back before it is over":            {plain, "0 leads\n90 leads dead:a=1\n100 leads\n159 leads dead:a=1\n200 leads\n259 leads\n260 leads", "90 firing dead_letters a, 260 over dead_letters a"},
		"repeats":                           {plain, "0 leads\n60 leads dead:a=1\n3659 leads dead:a=1\n3660 leads dead:a=2\n7259 leads dead:a=2\n7260 leads dead:a=2", "60 firing dead_letters a, 3660 repeated dead_letters a, 7260 repeated dead_letters a"},
		"late looks keep the cadence":       {plain, "0 leads\n60 leads dead:a=1\n3700 leads dead:a=1\n7259 leads dead:a=1\n7260 leads dead:a=1", "60 firing dead_letters a, 3700 repeated dead_letters a, 7260 repeated dead_letters a"},
		"a missed turn is not made up":      {plain, "0 leads\n60 leads dead:a=1\n9000 leads dead:a=1\n9001 leads dead:a=1\n12599 leads dead:a=1\n12600 leads dead:a=1", "60 firing dead_letters a, 9000 repeated dead_letters a, 12600 repeated dead_letters a"},
		"never repeated":                    {never, "0 leads\n60 leads dead:a=1\n99999 leads dead:a=1", "60 firing dead_letters a"},
		"each sink for itself":              {plain, "0 leads\n60 leads dead:a=1\n70 leads dead:a=1 dead:b=1 dead:=1", "60 firing dead_letters a, 70 firing dead_letters b, 70 firing dead_letters"},
		"many in all":                       {plain, "0 leads\n60 leads dead:a=6 dead:b=4\n70 leads dead:a=6 dead:b=5\n80 leads dead:a=95 dead:b=6", "60 firing dead_letters a, 60 firing dead_letters b, 70 firing many_dead, 80 firing very_many_dead"},
		"the start is quiet":                {plain, "0 leads dead:a=1 lag=100\n59 leads dead:a=1 lag=100\n60 leads dead:a=1", "60 firing dead_letters a"},
		"a backlog has to last":             {plain, "0 leads\n90 leads back:a=1001\n149 leads back:a=1001\n150 leads back:a=1000\n151 leads back:a=1001\n211 leads back:a=1001", "211 firing backlog"},
		"lag":                               {plain, "0 leads\n60 leads lag=10\n61 leads lag=11\n62 leads lag=61", "61 firing lagging, 62 firing lag"},
		"undelivered":                       {plain, "0 leads\n60 leads age:b=300\n61 leads age:b=301", "61 firing undelivered b"},
		"log":                               {plain, "0 leads\n60 leads log=1 max=10\n61 leads log=2\n62 leads log=6 max=10", "61 firing retained_log, 62 firing retained_share"},
		"held since long":                   {plain, "0 leads\n60 leads held:a=3600\n61 leads held:a=3601", "61 firing held a"},
		"held by an operator":               {plain, "0 leads hold:a/g\n3600 leads hold:a/g\n3601 leads hold:a/g\n3602 leads hold:/g", "3601 firing held a"},
		"a limit is taken away":             {plain, "0 leads\n60 leads log=5 max=9\n61 leads log=5\n121 leads log=5", "60 firing retained_log, 60 firing retained_share, 121 over retained_share"},
		"a slot is dropped":                 {plain, "0 leads\n60 leads log=5\n61 leads\n121 leads", "60 firing retained_log, 121 over retained_log"},
		"a share a little above half":       {plain, "0 leads\n60 leads log=5 max=10\n61 leads log=51 max=101", "60 firing retained_log, 61 firing retained_share"},
		"restarts within ten minutes":       {plain, "0 leads\n60 leads again=1\n120 leads again=2\n700 leads again=3\n719 leads again=4", "719 firing restarts"},
		"restarts are forgotten":            {plain, "0 leads\n10 leads again=3\n609 leads again=3\n610 leads again=3\n670 leads again=3", "10 firing restarts, 670 over restarts"},
		"a loop of crashes":                 {plain, "0 leads crash=3", "0 firing restarts"},
		"a crash that is not a doubling":    {plain, "0 leads crash=4\n5 leads crash=4", ""},
		"six crashes":                       {plain, "0 leads crash=6", "0 firing restarts"},
		"nobody leads":                      {plain, "0 idle\n59 idle\n60 idle\n70 stands\n129 stands\n130 stands", "60 firing no_leader, 130 over no_leader"},
		"a standby is silent":               {plain, "0 stands\n90 stands fail:a dead:a=9 lag=99\n999 stands fail:a dead:a=9", ""},
		"takeover by another":               {plain, "0 leads\n60 leads dead:a=1\n90 stands dead:a=1\n999 stands", "60 firing dead_letters a, 90 left dead_letters a"},
		"a lost connection changes nothing": {plain, "0 leads\n60 leads dead:a=1\n70 idle\n80 leads dead:a=1 again=1\n150 leads again=1\n210 leads again=1", "60 firing dead_letters a, 210 over dead_letters a"},
		"the database does not answer":      {plain, "0 leads\n60 leads dead:a=1\n70 leads nodb\n999 leads nodb\n1000 leads dead:a=1\n1001 leads\n1061 leads", "60 firing dead_letters a, 1061 over dead_letters a"},
		"the end":                           {plain, "0 leads\n60 leads dead:a=1\n61 leads\n62 ends\n63 ends", "60 firing dead_letters a, 62 left dead_letters a"},
		"an end without alerts":             {plain, "0 leads\n60 leads fail:a\n61 ends", ""},
		"all off":                           {off, "0 idle\n999 idle\n1000 " + everything + "\n9000 " + everything, ""},
	} {
		if got := strings.Join(script(t, c.config, c.lines), ", "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	// Every condition fires on the worst of facts.
	var fired []string
	for _, one := range script(t, plain, "0 idle\n60 idle\n100 "+everything+"\n200 "+everything) {
		words := strings.Fields(one)
		if words[1] == "firing" {
			fired = append(fired, words[2])
		}
	}
	for _, c := range Conditions() {
		if !slices.Contains(fired, c.String()) {
			t.Errorf("%s never fires: %v", c, fired)
		}
	}
}

// Every state knows every event, and leads to a state that events can leave again.
func TestTransitions(t *testing.T) {
	t.Parallel()
	for s := range states {
		if next[s][leave] != quiet {
			t.Errorf("%s: an end leads to %s", s, next[s][leave])
		}
		if next[s][ripe] != firing {
			t.Errorf("%s: what has held for long enough is %s", s, next[s][ripe])
		}
		if to := next[s][over]; to != quiet {
			t.Errorf("%s: what is over is %s", s, to)
		}
	}
}
