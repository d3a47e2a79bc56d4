package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

var update = flag.Bool("update", false, "write golden files")

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	c, f, err := config.Load("testdata/full.yaml", environment("DATABASE_URL", "postgres://db/shop"))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Pipeline: "orders",
		Source: config.Source{Kind: "postgres", URL: "postgres://db/shop", Slot: "tailbox_orders", Publication: "tailbox_orders",
			Failover: true, Schema: "public", Start: "pending", Reconcile: 5 * time.Minute, Cleanup: time.Hour,
			Tables: []outbox.Table{{Schema: "public", Name: "outbox", Shape: "debezium", OnDelivered: outbox.Delete, Words: outbox.DefaultWords(),
				Columns: outbox.Columns{ID: "id", Type: "type", Topic: "aggregatetype", Key: "aggregateid", Group: []string{"customer"}, Payload: "payload"}, NeedsType: true}}},
		Sinks:  []config.Sink{{Name: "kafka", Kind: "kafka"}, {Name: "audit", Kind: "http"}, {Name: "mail", Kind: "smtp"}},
		Memory: 64 << 20, MaxMessage: 16 << 20, ShutdownTimeout: 30 * time.Second,
		Admin:  config.Admin{Listen: "127.0.0.1:8480", URL: "https://relay.example"},
		Alerts: config.Alerts{To: []string{"audit"}, Repeat: 2 * time.Hour, Steady: time.Minute, Limits: alert.DefaultLimits()},
	}
	want.Alerts.Limits[alert.Undelivered].Value, want.Alerts.Limits[alert.Lagging] = int64(10*time.Minute), alert.Limit{Off: true}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreFields(config.Sink{}, "Section"), cmpopts.IgnoreFields(config.Config{}, "Router")); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	kafka := c.Sinks[0].Section
	sasl, tls := kafka.Section("sasl"), kafka.Section("tls")
	got := []any{kafka.Strings("brokers"), kafka.String("compression", ""), sasl.Choice("mechanism", "", "scram-sha-512"), sasl.String("username", ""),
		sasl.Secret("password"), tls.Path("ca"), tls.Path("cert"), tls.Path("key"), tls.String("server_name", "")}
	if diff := cmp.Diff([]any{[]string{"127.0.0.1:9092"}, "lz4", "scram-sha-512", "u", "", "testdata/ca.pem", "testdata/c.pem", "testdata/k.pem", "x"}, got); diff != "" {
		t.Errorf("kafka (-want +got):\n%s", diff)
	}
	kafka.Done()
	sasl.Done()
	tls.Done()
	if err := f.Err(); err != nil {
		t.Errorf("problems:\n%v", err)
	}
	routes := c.Router.Routes()
	if len(routes) != 2 || routes[0].Name != "mail" || routes[1].Name != "main" {
		t.Fatalf("routes %+v", routes)
	}
	wantRetry := router.DefaultRetry()
	wantRetry.Attempts, wantRetry.Schedule = 4, []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute}
	if diff := cmp.Diff(wantRetry, routes[0].Retry); diff != "" || routes[0].OnExhausted != router.Skip || routes[1].OnExhausted != router.Hold {
		t.Errorf("policy of routes %+v %+v\n%s", routes[0], routes[1], diff)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	c, f, err := config.Load("testdata/wrong.yaml", environment())
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if s.Kind == "kafka" {
			s.Section.Strings("brokers")
			s.Section.Done()
			continue
		}
		s.UnknownKind([]string{"http", "kafka", "stdout"}, []string{"redis"})
	}
	golden(t, "wrong.txt", f.Err().Error()+"\n")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, f, err := config.Read("x.yaml", []byte("source: {kind: postgres, url: 'host=/run dbname=x'}\npipeline: a-b\nsinks: {out: {kind: stdout}}\nmemory: 8MiB\n"), environment())
	if err != nil || f.Err() != nil {
		t.Fatal(err, f.Err())
	}
	if c.Source.Slot != "tailbox_a_b" || c.Source.Publication != "tailbox_a_b" || c.Admin.Listen != "127.0.0.1:8480" ||
		c.MaxMessage != 8<<20 || c.Source.Reconcile != 5*time.Minute || c.ShutdownTimeout != 30*time.Second {
		t.Errorf("defaults %+v", c)
	}
	if len(c.Source.Tables) != 1 || c.Source.Tables[0].Name != "outbox" || c.Source.Tables[0].Shape != "debezium" || c.Source.Tables[0].OnDelivered != outbox.Delete {
		t.Errorf("tables %+v", c.Source.Tables)
	}
}

// MongoDB has neither slot nor publication, and the id of a document is its _id.
func TestMongoDB(t *testing.T) {
	t.Parallel()
	c, err := read(t, t.TempDir(), "source: {kind: mongodb, url: 'mongodb://h/shop', tables: [{}, {name: named, shape: tailbox, columns: {id: key_of_mine}}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	one, two := &c.Source.Tables[0].Columns, &c.Source.Tables[1].Columns
	if one.ID != "_id" || two.ID != "key_of_mine" || two.Seq != "" || c.Source.Slot != "" || c.Source.Reconcile != 5*time.Minute {
		t.Errorf("source %+v", c.Source)
	}
	for _, key := range []string{"slot: s", "publication: p", "lock_url: u", "failover: true", "read: log"} {
		if _, err := read(t, t.TempDir(), "source: {kind: mongodb, url: 'mongodb://h/shop', "+key+"}\n"); err == nil {
			t.Errorf("%s: no error", key)
		}
	}
	_, err = read(t, t.TempDir(), "source: {kind: mongodb, url: 'mongodb://h/shop', tables: [{shape: tailbox, columns: {group: meta.group, payload: body.data, status: meta.status}}]}\n")
	for _, want := range []string{"columns.group", "columns.payload", "meta.group"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "meta.status") {
			t.Errorf("paths: %v, want %s", err, want)
		}
	}
}

// read returns the config of a file with these lines added, or its problems.
func read(t *testing.T, dir, more string, env ...string) (*config.Config, error) {
	t.Helper()
	c, f, err := config.Read(filepath.Join(dir, "t.yaml"), []byte("sinks: {out: {kind: stdout}}\n"+more), environment(env...))
	if err != nil {
		return nil, err
	}
	return c, f.Err()
}

func TestColumns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		yaml string
		want func(*outbox.Table)
		err  string
	}{
		"debezium's spelling, and the group follows": {
			yaml: "tables: [{}]}\nrouter: {table.field.event.key: k, route.by.field: t, table.field.event.id: i}",
			want: func(t *outbox.Table) {
				t.Columns.ID, t.Columns.Key, t.Columns.Topic, t.Columns.Group = "i", "k", "t", []string{"t", "k"}
			},
		},
		"both, and equal": {
			yaml: "tables: [{columns: {key: k, group: g}}]}\nrouter: {table.field.event.key: k}",
			want: func(t *outbox.Table) { t.Columns.Key, t.Columns.Group = "k", []string{"g"} },
		},
		"both, and unequal": {
			yaml: "tables: [{columns: {key: k, group: g}}]}\nrouter: {table.field.event.key: l}",
			err:  `source.tables[0].columns.key "k": contradicts the router's table.field.event.key, which names the column "l": keep one of the two`,
		},
		"no group": {
			yaml: "tables: [{columns: {group: ~}}]}",
			want: func(t *outbox.Table) { t.Columns.Group = nil },
		},
		"key taken away": {
			yaml: "tables: [{columns: {key: ~}}]}",
			err:  "source.tables[0].columns.group: must be set, because the group's column aggregateid was taken away",
		},
		"status makes mark the default": {
			yaml: "tables: [{columns: {status: state}}]}",
			want: func(t *outbox.Table) { t.Columns.Status, t.OnDelivered = "state", outbox.Mark },
		},
		"mark without a column": {
			yaml: "tables: [{on_delivered: mark}]}",
			err:  `source.tables[0].on_delivered "mark": needs a column status or delivered_at`,
		},
		"quoted name and fields of placements": {
			yaml: `tables: [{name: '"My.S".out"""', router: {"table.fields.additional.placement": "shard:partition,type:header"}}]}`,
			err:  `source.tables[0].name`,
		},
		"quoted name": {
			yaml: `tables: [{name: '"My.S"."o""x"', router: {"table.fields.additional.placement": ["shard:partition", "type:header"]}}]}`,
			want: func(t *outbox.Table) {
				t.Schema, t.Name, t.Fields, t.NeedsType = "My.S", `o"x`, []string{"shard"}, true
			},
		},
		"quoted columns": {
			yaml: `tables: [{columns: {id: '"ID"', group: ['"G""1"', g2]}, router: {table.field.event.key: '"Key"'}}]}`,
			want: func(t *outbox.Table) {
				t.Columns.ID, t.Columns.Key, t.Columns.Group = "ID", "Key", []string{`G"1`, "g2"}
			},
		},
		"half quoted column": {
			yaml: `tables: [{columns: {id: '"ID'}}]}`,
			err:  `source.tables[0].columns.id "\"ID": is no name: write it as it is in the database, such as ID, or quoted as in SQL`,
		},
		"quotes inside":     {yaml: `tables: [{columns: {group: ['a"b']}}]}`, err: `source.tables[0].columns.group`},
		"column of a table": {yaml: `tables: [{columns: {payload: '"a"."b"'}}]}`, err: `source.tables[0].columns.payload`},
		"feedback": {
			yaml: `tables: [{feedback: {delivered: "UPDATE orders SET sent = now() WHERE id = :order_no AND t = :tenant", dead: "UPDATE orders SET e = :error;"},
				router: {table.fields.additional.placement: "order_no:header"}}]}`,
			want: func(t *outbox.Table) {
				t.Fields = []string{"order_no"}
				t.Feedback = outbox.Feedback{outbox.OutcomeDelivered: "UPDATE orders SET sent = now() WHERE id = :order_no AND t = :tenant",
					outbox.OutcomeDead: "UPDATE orders SET e = :error;"}
			},
		},
		"feedback that ends the transaction": {yaml: `tables: [{feedback: {dead: COMMIT}}]}`,
			err: "source.tables[0].feedback.dead: must be one statement that begins with INSERT, UPDATE"},
		"feedback with what is not known": {yaml: `tables: [{feedback: {delivered: "UPDATE a SET b = :error"}}]}`,
			err: "source.tables[0].feedback.delivered: :error is not known of a delivered message"},
		"feedback about nothing":  {yaml: `tables: [{feedback: {}}]}`, err: "source.tables[0].feedback: is empty"},
		"feedback about a status": {yaml: `tables: [{feedback: {failed: "UPDATE a SET b = 1"}}]}`, err: "source.tables[0].feedback.failed"},
		"retention": {
			yaml: `tables: [{columns: {delivered_at: d}, retention: 24h}]}`,
			want: func(t *outbox.Table) {
				t.Columns.DeliveredAt, t.OnDelivered, t.Retention = "d", outbox.Mark, 24*time.Hour
			},
		},
		"retention of a shape": {yaml: "tables: [{shape: gopipe, on_delivered: delete}, {shape: gopipe, name: b, retention: 0s}, {shape: gopipe, name: c, retention: 5s}]}",
			err: "source.tables[2].retention \"5s\": must be at least 1m"},
		"retention of what is deleted": {yaml: `tables: [{retention: 24h}]}`, err: "source.tables[0].retention \"24h0m0s\": has no effect with on_delivered: delete"},
		"retention of what is kept": {yaml: `tables: [{columns: {delivered_at: d}, on_delivered: keep, retention: 24h}]}`,
			err: "set on_delivered to mark, with a column delivered_at"},
		"retention without a time": {yaml: `tables: [{columns: {status: s}, retention: 24h}]}`, err: "needs a column delivered_at"},
		"retention too short":      {yaml: `tables: [{columns: {delivered_at: d}, retention: 24s}]}`, err: "must be at least 1m"},
		"receipt": {
			yaml: `tables: [{columns: {receipt: r}, on_delivered: keep}]}`,
			want: func(t *outbox.Table) { t.Columns.Receipt, t.OnDelivered = "r", outbox.Keep },
		},
		"receipt of what is deleted": {yaml: `tables: [{columns: {receipt: r}}]}`, err: "source.tables[0].columns.receipt: has no effect"},
		"tenants": {
			yaml: `tables: [{columns: {tenant: t}, tenants: [a, b]}]}`,
			want: func(t *outbox.Table) { t.Columns.Tenant, t.Tenants = "t", []string{"a", "b"} },
		},
		"tenants without a column": {yaml: `tables: [{tenants: a}]}`, err: "needs a column that holds the tenant"},
		"no tenants":               {yaml: `tables: [{columns: {tenant: t}, tenants: []}]}`, err: "source.tables[0].tenants: is empty"},
		"null payload column":      {yaml: "tables: [{columns: {payload: }}]}", err: "source.tables[0].columns.payload: must name a column"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, "", "source: {kind: postgres, url: x, "+c.yaml+"\n")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			shape, _ := outbox.ShapeNamed("debezium")
			want := outbox.Table{Name: "outbox", Shape: "debezium", Columns: shape.Columns, OnDelivered: shape.OnDelivered, Words: shape.Words}
			c.want(&want)
			if diff := cmp.Diff([]outbox.Table{want}, got.Source.Tables); diff != "" {
				t.Errorf("tables (-want +got):\n%s", diff)
			}
		})
	}
}

// An update for MongoDB may be written as YAML, whose order is kept, or as JSON.
func TestFeedbackOfMongoDB(t *testing.T) {
	t.Parallel()
	const want = `{"collection":"orders","filter":{"_id":":key:objectid"},"update":{"$set":{"b":1,"a":":error","d":null}}}`
	for _, text := range []string{
		"{collection: orders, filter: {_id: ':key:objectid'}, update: {$set: {b: 1, a: ':error', d: ~}}}",
		"'" + want + "'",
	} {
		c, err := read(t, "", "source: {kind: mongodb, url: mongodb://h/d, tables: [{feedback: {dead: "+text+"}}]}\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Source.Tables[0].Feedback[outbox.OutcomeDead]; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	_, err := read(t, "", "source: {kind: mongodb, url: mongodb://h/d, tables: [{feedback: {dead: UPDATE a SET b = 1}}]}\n")
	if err == nil || !strings.Contains(err.Error(), "feedback.dead: must be {collection, filter, update}") {
		t.Errorf("a statement in SQL: got %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pass"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const source = "source: {kind: postgres, url: x}\n"
	for name, c := range map[string]struct {
		yaml string
		env  []string
		want string
		err  string
	}{
		"set":                   {yaml: "a${X1_Y}b", env: []string{"X1_Y", "v"}, want: "avb"},
		"set to nothing":        {yaml: "a${X}b", env: []string{"X", ""}, want: "ab"},
		"default":               {yaml: "${X:-d e}${Y:-}", want: "d e"},
		"default for nothing":   {yaml: "${X:-d}", env: []string{"X", ""}, want: "d"},
		"value is not expanded": {yaml: "${X}", env: []string{"X", "${Y} #: {"}, want: "${Y} #: {"},
		"small letters stay":    {yaml: "${routedByValue}${Aa}$X ${", want: "${routedByValue}${Aa}$X ${"},
		"unset":                 {yaml: "${SECRET_TOKEN}", err: "admin.token: the environment variable SECRET_TOKEN is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, dir, source+"admin: {token: '"+c.yaml+"'}", c.env...)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || got.Admin.Token != c.want {
				t.Errorf("token %q, %v, want %q", got.Admin.Token, err, c.want)
			}
		})
	}
	got, err := read(t, dir, source+"admin: {token_file: pass}")
	if err != nil || got.Admin.Token != "hunter2" {
		t.Errorf("token of a file: %q, %v", got.Admin.Token, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "emptied"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, dir, source+"admin: {token_file: emptied}"); err == nil || !strings.Contains(err.Error(), "admin.token_file") || !strings.Contains(err.Error(), "holds nothing") {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := read(t, dir, source+"admin: {token_file: pass, token: other}"); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "other") {
		t.Errorf("token twice: error %v", err)
	}
}

func TestRetryIsLaidOver(t *testing.T) {
	t.Parallel()
	c, err := read(t, "", `source: {kind: postgres, url: x}
retry: {attempts: 3, schedule: [1s]}
routes:
  - {match: {type: a}, to: out, retry: {attempts: 5}}
  - {match: {type: b}, to: out, retry: {initial: 10m}}
  - {to: out}
`)
	if err != nil {
		t.Fatal(err)
	}
	full := router.DefaultRetry()
	a, b, last := full, full, full
	a.Attempts, a.Schedule = 5, []time.Duration{time.Second}
	b.Attempts, b.Initial, b.Max = 3, 10*time.Minute, 10*time.Minute
	last.Attempts, last.Schedule = 3, []time.Duration{time.Second}
	var got []router.Retry
	for _, r := range c.Router.Routes() {
		got = append(got, r.Retry)
	}
	if diff := cmp.Diff([]router.Retry{a, b, last}, got); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
}

func TestNoYAML(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"a: b: c":          "read x.yaml: mapping values are not allowed in this context",
		"- a":              "must be a mapping",
		"a: 1\n---\nb: 2":  "several YAML documents",
		"a: &x {b: *x}":    "nested deeper",
		"a: *nothing":      "unknown anchor",
		"\tx: y":           "cannot start any token",
		"a: \"\\xzz\"":     "read x.yaml",
		"{? [a]: b, c: d}": "",
	} {
		_, f, err := config.Read("x.yaml", []byte(yaml), environment())
		if err == nil {
			err = f.Err()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", yaml, err, want)
		}
	}
	if _, _, err := config.Load("testdata/none.yaml", environment()); err == nil {
		t.Error("no error without a file")
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"full.yaml", "wrong.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &x [*x, *x]"))
	f.Add([]byte("source: {tables: [{name: '\"'}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, file, err := config.Read("f.yaml", data, environment())
		if err != nil {
			return
		}
		if err := file.Err(); err == nil && c.Router == nil {
			t.Error("no problem, and no router")
		}
	})
}
