package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A diedAt is a dead letter in a list.
type diedAt struct {
	id string
	at time.Time
}

// newest reads the list of dead letters that died last, page by page. what are further parameters.
func (a *apiRig) newest(limit int, what ...string) (all []diedAt) {
	a.t.Helper()
	q := url.Values{"order": {"newest"}, "limit": {fmt.Sprint(limit)}}
	for i := 0; i < len(what); i += 2 {
		q.Set(what[i], what[i+1])
	}
	for range 100 {
		got := a.ok("viewer", "GET", "/deliveries?"+q.Encode(), nil)
		for _, d := range got.body["deliveries"].([]any) {
			d := d.(map[string]any)
			all = append(all, diedAt{d["id"].(string), a.time(d["changed_at"])})
		}
		next, more := got.body["next"].(string)
		if !more {
			return all
		}
		q.Set("cursor", next)
	}
	a.t.Fatal("the list does not end")
	return nil
}

func (a *apiRig) time(text any) time.Time {
	a.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(text))
	if err != nil {
		a.t.Fatal(err)
	}
	return at
}

// newestFirst: dead letters come in the order in which they died, the last one first, whatever the pages are, and within a time.
func (a *apiRig) newestFirst(want int) {
	a.t.Helper()
	all := a.newest(100)
	if len(all) != want || !slices.IsSortedFunc(all, func(x, y diedAt) int { return y.at.Compare(x.at) }) {
		a.t.Fatalf("the newest of %d first: %v", want, all)
	}
	for _, limit := range []int{1, 2, want} {
		if got := a.newest(limit); !slices.Equal(got, all) {
			a.t.Errorf("the newest first, %d a page: %v, want %v", limit, got, all)
		}
	}
	for i, one := range all {
		at := one.at.Format(time.RFC3339Nano)
		since, until := a.newest(1, "since", at), a.newest(2, "until", at)
		same := slices.IndexFunc(all, func(d diedAt) bool { return d.at.Equal(one.at) })
		if len(since) <= i || !slices.Equal(until, all[len(since):]) || !slices.Equal(since, all[:len(since)]) || same+len(until) > want {
			a.t.Errorf("since and until %s: %v and %v of %v", at, since, until, all)
		}
	}
	if got := a.newest(1, "id", all[want-1].id); len(got) != 1 || got[0] != all[want-1] {
		a.t.Errorf("the newest first, by id: %v", got)
	}
	if got := append(a.newest(1, "sink", "nowhere"), append(a.newest(1, "type", "no*"), a.newest(1, "group", "none")...)...); len(got) > 0 {
		a.t.Errorf("the newest first, by what nothing has: %v", got)
	}
	if got, none := a.newest(1, "class", "permanent"), a.newest(1, "class", "perm"); len(got) != want || len(none) > 0 {
		a.t.Errorf("the newest first, by class: %v, and by one that nothing has: %v", got, none)
	}
	place := a.ok("viewer", "GET", "/deliveries?limit=1", nil).body["next"].(string)
	for path, says := range map[string]string{
		"order=newest&state=dead&state=waiting": "dead letters alone", "since=2026-01-01T00:00:00Z": "order=newest", "order=newest&since=yesterday": "since",
		"class=perm*": "class", "order=oldest": "order", "order=newest&cursor=" + place: "cursor",
	} {
		if got := a.call("viewer", "GET", "/deliveries?"+path, nil); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, says) {
			a.t.Errorf("%s: %+v", path, got)
		}
	}
	if got := a.call("auditor", "GET", "/deliveries?class=permanent&reason=*4*", nil); got.status != http.StatusUnprocessableEntity {
		a.t.Errorf("a class and a reason: %+v", got)
	}
}

// summary asks for failures, as "class/type/sink count" with - for what is not grouped by, the most frequent first.
func (a *apiRig) summary(role, query string) (groups []string, whole answer) {
	a.t.Helper()
	whole = a.ok(role, "GET", "/deliveries/summary"+query, nil)
	for _, f := range whole.body["failures"].([]any) {
		f := f.(map[string]any)
		of := func(name string) string {
			if text, ok := f[name].(string); ok {
				return text
			}
			return "-"
		}
		groups = append(groups, fmt.Sprintf("%s/%s/%s %v", of("class"), of("type"), of("sink"), f["count"]))
		if a.time(f["last_seen"]).Before(a.time(f["first_seen"])) {
			a.t.Errorf("a failure was seen last before it was first: %s", whole.text)
		}
	}
	return groups, whole
}

// summarized: failures are counted by what is asked for, each with an example of itself, of which a viewer does not see what the endpoint answered.
func (a *apiRig) summarized(want int) {
	a.t.Helper()
	groups, whole := a.summary("viewer", "")
	if !slices.Equal(groups, []string{fmt.Sprintf("permanent/-/api %d", want)}) || whole.body["partial"] != nil || strings.Contains(whole.text, "last_error") {
		a.t.Errorf("failures: %s", whole.text)
	}
	asked, again := a.time(whole.body["as_of"]), a.time(a.ok("auditor", "GET", "/deliveries/summary?by=sink,class", nil).body["as_of"])
	if !again.Equal(asked) && again.Sub(asked) < 10*time.Second {
		a.t.Errorf("what was counted at %v was counted again at %v", asked, again)
	}
	_, whole = a.summary("auditor", "")
	example := whole.body["failures"].([]any)[0].(map[string]any)["example"].(map[string]any)
	if example["sink"] != "api" || !strings.Contains(fmt.Sprint(example["last_error"]), "400 Bad Request") ||
		!slices.ContainsFunc(a.newest(100), func(d diedAt) bool { return d.id == example["id"] }) {
		a.t.Errorf("an example: %v", example)
	}
	if got := a.call("viewer", "GET", "/deliveries/summary?by=group", nil); got.status != http.StatusUnprocessableEntity {
		a.t.Errorf("failures by what they are not grouped by: %+v", got)
	}
}

// Failures of several kinds, with what waits behind them.
func TestAPIFailures(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	for i, kind := range []string{"a1", "a1", "b1"} {
		a.send(kind, fmt.Sprintf("g:%d", i), `{"x": "bad"}`)
	}
	a.send("w1", "g:0", `{}`)
	until(t, "three dead letters and one that waits", func() bool {
		states := a.parkedStates()
		return states["dead"] == 3 && states["waiting"] == 1
	})
	a.newestFirst(3)
	a.summarized(3)
	for query, want := range map[string][]string{
		"?by=type": {"-/a1/- 2", "-/b1/- 1"}, "?by=class,type,sink": {"permanent/a1/api 2", "permanent/b1/api 1"}, "?by=sink": {"-/-/api 3"},
		"?by=type&state=waiting": {"-/w1/- 1"}, "?by=type&state=retrying": nil, "?by=class&state=waiting&state=dead": {"permanent/-/- 3", "/-/- 1"},
	} {
		if got, whole := a.summary("operator", query); !slices.Equal(got, want) {
			t.Errorf("failures %s: %v, want %v: %s", query, got, want, whole.text)
		}
	}
	if got := a.must("dead", "list", "--newest", "--limit", "2"); !strings.Contains(got, "and more") || strings.Index(got, a.newest(1)[0].id) > strings.Index(got, a.newest(1)[1].id) {
		t.Errorf("dead list --newest: %s", got)
	}
	// What a group is of selects it.
	if replayed := a.ok("operator", "POST", "/deliveries:replay", map[string]any{"reason": "permanent", "type": "a1", "sink": "api", "dry_run": true}); len(replayed.body["deliveries"].([]any)) != 2 {
		t.Errorf("a selection of a group: %s", replayed.text)
	}
}
