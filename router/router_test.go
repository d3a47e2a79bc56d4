package router_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

func table(t testing.TB, shape, name string) outbox.Table {
	t.Helper()
	s, ok := outbox.ShapeNamed(shape)
	if !ok {
		t.Fatalf("no shape %s", shape)
	}
	return outbox.Table{Schema: "public", Name: name, Shape: s.Name, Columns: s.Columns, OnDelivered: s.OnDelivered}
}

func mustNew(t testing.TB, c router.Config) *router.Router {
	t.Helper()
	r, err := router.New(c)
	if err != nil {
		t.Fatalf("make router: %v", err)
	}
	return r
}

func invoice() *outbox.Message {
	return &outbox.Message{ID: "m1", Type: "InvoiceIssued", Topic: "invoice", Group: "invoice:I-42", Key: []byte("I-42"),
		Payload: []byte(`{"total":12.5}`), Table: "public.outbox",
		Headers: []outbox.Header{{Name: "region", Value: []byte("eu")}},
		Fields: []outbox.Field{{Name: "shard", Value: []byte("7")}, {Name: "nothing", Null: true},
			{Name: "word", Value: []byte("seven")}}}
}

func TestShape(t *testing.T) {
	t.Parallel()
	seven := int32(7)
	for name, c := range map[string]struct {
		shape   string
		options router.Options
		own     router.Options
		edit    func(*outbox.Message)
		want    sink.Delivery
		wantErr string
	}{
		"defaults": {
			want: sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"without a topic in the row the type is the topic": {
			shape: "tailbox", edit: func(m *outbox.Message) { m.Topic = "" },
			want: sink.Delivery{Topic: "InvoiceIssued", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"tailbox takes the topic as it is": {
			shape: "tailbox",
			want:  sink.Delivery{Topic: "invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"tailbox with a rule of its own": {
			shape: "tailbox", own: router.Options{"route.topic.replacement": "t.$0"},
			want: sink.Delivery{Topic: "t.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"nil key and value stay nil": {
			edit: func(m *outbox.Message) { m.Key, m.Payload = nil, nil },
			want: sink.Delivery{Topic: "outbox.event.invoice"},
		},
		"empty payload is not nil": {
			edit: func(m *outbox.Message) { m.Payload = []byte{} },
			want: sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte{}},
		},
		"tombstone": {
			options: router.Options{"route.tombstone.on.empty.payload": "true"},
			edit:    func(m *outbox.Message) { m.Payload = []byte(" \n") },
			want:    sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42")},
		},
		"regex with a group": {
			options: router.Options{"route.topic.regex": `(inv)(.*)`, "route.topic.replacement": `$2-\$-$1`},
			want:    sink.Delivery{Topic: "oice-$-inv", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"regex that does not match the whole": {
			options: router.Options{"route.topic.regex": `inv`, "route.topic.replacement": `x`},
			want:    sink.Delivery{Topic: "invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"first match is replaced, not the whole": {
			options: router.Options{"route.topic.regex": `i|inv|invoice`, "route.topic.replacement": `x`},
			want:    sink.Delivery{Topic: "xnvoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"number of a group ends where there is no such group": {
			options: router.Options{"route.topic.regex": `(.*)`, "route.topic.replacement": `$10`},
			want:    sink.Delivery{Topic: "invoice0", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"a second rule reads the topic of the first": {
			options: router.Options{"route.topic.then.regex": `outbox\.event\.(.*)`, "route.topic.then.replacement": `app.$1.v1`},
			want:    sink.Delivery{Topic: "app.invoice.v1", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"a second rule alone, of a table that takes the topic as it is": {
			shape: "tailbox", own: router.Options{"route.topic.then.regex": `(inv).*`, "route.topic.then.replacement": `$1`},
			want: sink.Delivery{Topic: "inv", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"a second rule that does not match": {
			options: router.Options{"route.topic.then.regex": `event\.(.*)`, "route.topic.then.replacement": `app.$1`},
			want:    sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"placements": {
			options: router.Options{"table.fields.additional.placement": "type:header:eventType, shard:partition,nothing:header,aggregateid:header:key"},
			want: sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`), Partition: &seven,
				Headers: []outbox.Header{{Name: "eventType", Value: []byte("InvoiceIssued")}, {Name: "nothing"},
					{Name: "key", Value: []byte("I-42")}}},
		},
		"placements of a table override": {
			options: router.Options{"table.fields.additional.placement": "type:header:a"},
			own:     router.Options{"table.fields.additional.placement": "type:header:b"},
			want: sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`),
				Headers: []outbox.Header{{Name: "b", Value: []byte("InvoiceIssued")}}},
		},
		"partition is not a number": {
			options: router.Options{"table.fields.additional.placement": "word:partition"},
			wantErr: `"seven" is not a partition number`,
		},
		"missing column": {
			options: router.Options{"table.fields.additional.placement": "nowhere:header"},
			wantErr: "the row has no such column",
		},
		"missing column ignored": {
			options: router.Options{"table.fields.additional.placement": "nowhere:header", "table.field.additional.missing": "ignore"},
			want:    sink.Delivery{Topic: "outbox.event.invoice", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"a rule of a table whose rows name no topic": {
			shape: "tailbox",
			own:   router.Options{"route.topic.regex": `Invoice(.*)`, "route.topic.replacement": `x.$1`},
			edit:  func(m *outbox.Message) { m.Topic = "" },
			want:  sink.Delivery{Topic: "x.Issued", Key: []byte("I-42"), Value: []byte(`{"total":12.5}`)},
		},
		"no aggregate type": {
			edit:    func(m *outbox.Message) { m.Topic = "" },
			wantErr: "column aggregatetype is empty",
		},
		"unknown table": {
			edit:    func(m *outbox.Message) { m.Table = "public.other" },
			wantErr: "table public.other is not in the configuration",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.shape == "" {
				c.shape = "debezium"
			}
			r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, c.shape, "outbox")}, Options: c.options,
				TableOptions: []router.Options{c.own}, Sinks: []string{"out"}})
			m := invoice()
			if c.edit != nil {
				c.edit(m)
			}
			d := sink.Delivery{Attempt: 3, Source: "shop"}
			route, err := r.Route(m, &d)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if route.Name != "out" {
				t.Errorf("route %q, want out", route.Name)
			}
			c.want.Message, c.want.Attempt, c.want.Source = m, 3, "shop"
			if diff := cmp.Diff(c.want, d); diff != "" {
				t.Errorf("delivery (-want +got):\n%s", diff)
			}
		})
	}
}

// A rule of a table changes what the table's topic names, too.
func TestRuleOfTemplate(t *testing.T) {
	t.Parallel()
	templated := table(t, "tailbox", "outbox")
	templated.Topic, templated.Columns.Topic = "all.${type}", ""
	r := mustNew(t, router.Config{Tables: []outbox.Table{templated}, Sinks: []string{"out"},
		TableOptions: []router.Options{{"route.topic.regex": `all\.Invoice(.*)`, "route.topic.replacement": `x.$1`}}})
	var d sink.Delivery
	if _, err := r.Route(invoice(), &d); err != nil || d.Topic != "x.Issued" {
		t.Errorf("topic %q, %v", d.Topic, err)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	found := table(t, "tailbox", "b.c")
	found.Schema = ""
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "a"), found}, Sinks: []string{"out"},
		Options: router.Options{"route.topic.replacement": "x.${routedByValue}"}})
	for tbl, want := range map[string]string{"public.a": "x.invoice", "public.b.c": "invoice", "b.c": "invoice"} {
		m := invoice()
		m.Table = tbl
		var d sink.Delivery
		if _, err := r.Route(m, &d); err != nil || d.Topic != want {
			t.Errorf("table %s: topic %q, %v, want %q", tbl, d.Topic, err, want)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	r := mustNew(t, router.Config{Sinks: []string{"mail", "kafka", "audit", "old"}, Routes: []router.RouteConfig{
		{Match: map[string][]string{"type": {"email.*", "sms"}}, To: []string{"mail"}, OnExhausted: router.Skip},
		{Match: map[string][]string{"header.region": {"us*"}}, To: []string{"audit"}},
		{Match: map[string][]string{"topic": {"/^in(v|b)oice$/"}, "tenant": {"?*"}}, To: []string{"audit", "mail"}},
		{Name: "grouped", Match: map[string][]string{"group": {"order:*"}}, To: []string{"kafka"}},
		{Match: map[string][]string{"table": {"*.main"}}, To: []string{"kafka", "audit"}},
	}})
	for _, c := range []struct {
		m    outbox.Message
		want string
	}{
		{outbox.Message{Type: "email.welcome.v2"}, "mail"},
		{outbox.Message{Type: "sms"}, "mail"},
		{outbox.Message{Type: "sms2", Table: "public.main"}, "kafka+audit"},
		{outbox.Message{Headers: []outbox.Header{{Name: "region", Value: []byte("eu")}, {Name: "region", Value: []byte("us-1")}}}, "audit"},
		{outbox.Message{Topic: "invoice", Tenant: "t"}, "audit+mail"},
		{outbox.Message{Topic: "invoice", Group: "order:1"}, "grouped"},
	} {
		var d sink.Delivery
		route, err := r.Route(&c.m, &d)
		if err != nil {
			t.Errorf("%+v: %v", c.m, err)
		} else if route.Name != c.want {
			t.Errorf("%+v: route %s, want %s", c.m, route.Name, c.want)
		}
	}
	m := outbox.Message{Type: "x", Topic: "y", Table: "public.z"}
	var d sink.Delivery
	_, err := r.Route(&m, &d)
	want := `no route matches: message of type "x", topic "y", table public.z: add a route that matches it, or a last one without match`
	if !errors.Is(err, router.ErrNoRoute) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}

	for _, c := range []struct {
		m    outbox.Message
		sink string
		want string
		skip bool
	}{
		{outbox.Message{Topic: "invoice", Tenant: "t"}, "mail", "audit+mail", false},
		{outbox.Message{Type: "x"}, "mail", "mail", true},
		{outbox.Message{Type: "x"}, "old", "old", false},
	} {
		route, err := r.ForSink(&c.m, c.sink, &d)
		if err != nil {
			t.Fatal(err)
		}
		if route.Name != c.want || (route.OnExhausted == router.Skip) != c.skip || route.Retry.Attempts != 15 {
			t.Errorf("for sink %s: route %+v, want %s", c.sink, route, c.want)
		}
	}
}

func TestNewTellsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := router.New(router.Config{
		Tables: []outbox.Table{table(t, "debezium", "a"), table(t, "tailbox", "b")},
		Options: router.Options{"route.topic.regexp": "x", "table.expand.json.payload": "yes", "tracing.with.context.field.only": "x",
			"table.op.invalid.behavior": "ignore", "route.topic.regex": "a)(b", "table.field.event.id": "", "format.key": "avro",
			"table.json.payload.null.behavior": "drop", "table.json.payload.empty.array.behavior": "drop", "tracing.span.context.field": "",
			"table.field.additional.missing": "warn", "collection.field.event.id": "_id", "collection.json.payload.null.behavior": "ignore",
			"table.fields.additional.placement": "type:envelope,aggregateid:envelope:type", "table.field.event.schema.version": ""},
		TableOptions: []router.Options{nil, {"route.topic.replacement": "$$x", "route.topic.regex": ".*",
			"table.fields.additional.placement": "type:nowhere"}},
		Sinks: []string{"a", "b"},
		Retry: router.Retry{Attempts: -1, Jitter: "half", Schedule: nil, Initial: 5, Max: 2, Factor: 0.5},
		Routes: []router.RouteConfig{
			{Name: "n", Match: map[string][]string{"typ": {"x"}, "type": {"/(/"}, "header.": {"x"}, "group": nil}, To: []string{"a", "c", "a"}},
			{Name: "n", OnExhausted: "die", Retry: &router.Retry{Attempts: 0, Schedule: []time.Duration{-1}}},
			{To: []string{"b"}},
		},
	})
	ps, ok := errors.AsType[router.Problems](err)
	if !ok {
		t.Fatalf("error %v, want Problems", err)
	}
	want, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), ps.Error()+"\n"); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, c := range []router.Config{{}, {Sinks: []string{"a", "b"}}, {Sinks: []string{"a"},
		Tables: []outbox.Table{table(t, "tailbox", "b")}, Options: router.Options{"route.topic.regex": ".*"}}} {
		if _, err := router.New(c); err == nil {
			t.Errorf("config %+v: no error", c)
		}
	}
}

func TestReplacementErrors(t *testing.T) {
	t.Parallel()
	for replacement, want := range map[string]string{
		`a$$b`:  "a single $ is enough",
		`a${b`:  "without }",
		`a${b}`: `names the group "b"`,
		`a$2`:   "names the group 2",
		`a$`:    "names no group",
		`a\`:    "backslash",
	} {
		_, err := router.New(router.Config{Tables: []outbox.Table{table(t, "debezium", "a")}, Sinks: []string{"x"},
			Options: router.Options{"route.topic.regex": "(.*)", "route.topic.replacement": replacement}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "router.route.topic.replacement") {
			t.Errorf("replacement %s: error %v, want one with %q", replacement, err, want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o := router.Options{"route.by.field": "topic", "table.field.event.key": "k", "table.field.event.timestamp": "at",
		"table.fields.additional.placement": "k:header,shard:partition,zone:header,zone:header:z2"}
	if diff := cmp.Diff(map[string]string{"topic": "topic", "key": "k", "created_at": "at"}, o.Columns()); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shard", "zone"}, o.Fields(outbox.Columns{Key: "k"})); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestRouteIsSafeForGoroutines(t *testing.T) {
	t.Parallel()
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"}})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 3000 {
				m := invoice()
				m.Topic = fmt.Sprint(i)
				var d sink.Delivery
				if _, err := r.Route(m, &d); err != nil || d.Topic != "outbox.event."+m.Topic {
					t.Errorf("topic %q, %v", d.Topic, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestRouteDoesNotAllocate(t *testing.T) {
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"a", "b"},
		Routes: []router.RouteConfig{{Match: map[string][]string{"type": {"mail.*", "*.done"}}, To: []string{"a"}}, {To: []string{"b"}}}})
	m := invoice()
	var d sink.Delivery
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Route(m, &d) }); n != 0 {
		t.Errorf("%v allocations a message, want 0", n)
	}
}

func BenchmarkRoute(b *testing.B) {
	r := mustNew(b, router.Config{Tables: []outbox.Table{table(b, "debezium", "outbox")}, Sinks: []string{"out"}})
	m := invoice()
	var d sink.Delivery
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Route(m, &d); err != nil {
			b.Fatal(err)
		}
	}
}
