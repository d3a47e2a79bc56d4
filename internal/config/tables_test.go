package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		yaml string
		want outbox.Words
		err  string
	}{
		"of the shape":     {yaml: "{shape: memo}", want: outbox.Words{Pending: "PENDING", Delivered: "SENT", Retrying: "PENDING", Waiting: "PENDING", Dead: "FAILED"}},
		"some":             {yaml: "{shape: memo, words: {delivered: DONE, waiting: QUEUED}}", want: outbox.Words{Pending: "PENDING", Delivered: "DONE", Retrying: "PENDING", Waiting: "QUEUED", Dead: "FAILED"}},
		"numbers":          {yaml: "{shape: tailbox, words: {pending: 0, delivered: 1, retrying: 2, waiting: 0, dead: -1}}", want: outbox.Words{Pending: "0", Delivered: "1", Retrying: "2", Waiting: "0", Dead: "-1"}},
		"mixed":            {yaml: "{shape: tailbox, words: {pending: 0}}", err: "mixes whole numbers and words"},
		"unknown":          {yaml: "{shape: tailbox, words: {failed: x}}", err: "words.failed: unknown key"},
		"pending twice":    {yaml: "{shape: tailbox, words: {dead: pending}}", err: "words.dead \"pending\": is the word for pending too"},
		"delivered twice":  {yaml: "{shape: tailbox, words: {waiting: delivered}}", err: "words.waiting \"delivered\": is the word for delivered too"},
		"dead delivered":   {yaml: "{shape: tailbox, words: {dead: delivered}}", err: "a dead letter would look delivered"},
		"without a status": {yaml: "{shape: gopipe, words: {dead: x}}", err: "have no effect, because the table has no status column"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, "", "source: {kind: postgres, url: x, tables: ["+c.yaml+"]}\n")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Source.Tables[0].Words); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

// A shape brings its table's name, its options of the router and its retry, all of which the file can change.
func TestShapeDefaults(t *testing.T) {
	t.Parallel()
	c, err := read(t, "", "source: {kind: postgres, url: x, tables: [{shape: memo}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	memo := c.Source.Tables[0]
	if memo.Name != "email_outbox" || memo.OnDelivered != outbox.Mark || cmp.Diff([]string{"recipient_email", "notification_type"}, memo.Fields) != "" {
		t.Errorf("memo: %+v", memo)
	}
	if r := c.Router.Routes()[0].Retry; r.Attempts != 5 {
		t.Errorf("retry of memo: %+v", r)
	}
	c, err = read(t, "", "source: {kind: postgres, url: x, tables: [{shape: memo, router: {table.fields.additional.placement: 'recipient_email:header:rcpt'}}]}\nretry: {max: 1h}\n")
	if err != nil {
		t.Fatal(err)
	}
	if f, r := c.Source.Tables[0].Fields, c.Router.Routes()[0].Retry; len(f) != 1 || r.Attempts != 5 || r.Max != time.Hour {
		t.Errorf("memo, changed: fields %v, retry %+v", f, r)
	}
	c, err = read(t, "", "source: {kind: mongodb, url: 'mongodb://h/shop', tables: [{shape: flowcatalyst}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Source.Tables[0].Columns; f.ID != "_id" || f.Group[0] != "messageGroup" || f.DeliveredAt != "processedAt" {
		t.Errorf("flowcatalyst in MongoDB: %+v", f)
	}
}

// What a shape places is beneath what the file says for all tables, which adds to it, and gives way to what the file says for the table.
func TestPlacementsOfShape(t *testing.T) {
	t.Parallel()
	const placement = "table.fields.additional.placement"
	row := &outbox.Message{ID: "1", Table: "public.email_outbox", Type: "memo.created", Fields: []outbox.Field{
		{Name: "recipient_email", Value: []byte("ann@example.org")}, {Name: "notification_type", Value: []byte("MEMO")}, {Name: "cc", Value: []byte("bob@example.org")}}}
	for name, c := range map[string]struct {
		shared, own string
		fields      []string
		want        string
	}{
		"none":               {"{}", "{}", []string{"recipient_email", "notification_type"}, "to=ann@example.org notification-type=MEMO"},
		"another option":     {"{table.field.additional.missing: ignore}", "{}", []string{"recipient_email", "notification_type"}, "to=ann@example.org notification-type=MEMO"},
		"another name":       {"{" + placement + ": 'recipient_email:header:recipient'}", "{}", []string{"recipient_email", "notification_type"}, "to=ann@example.org notification-type=MEMO recipient=ann@example.org"},
		"another column":     {"{" + placement + ": ['cc:header']}", "{}", []string{"recipient_email", "notification_type", "cc"}, "to=ann@example.org notification-type=MEMO cc=bob@example.org"},
		"MongoDB's name":     {"{collection.fields.additional.placement: 'cc:header'}", "{}", []string{"recipient_email", "notification_type", "cc"}, "to=ann@example.org notification-type=MEMO cc=bob@example.org"},
		"the same header":    {"{" + placement + ": 'cc:header:To'}", "{}", []string{"notification_type", "cc"}, "notification-type=MEMO To=bob@example.org"},
		"all again":          {"{" + placement + ": 'recipient_email:header:to, notification_type:header:notification-type'}", "{}", []string{"recipient_email", "notification_type"}, "to=ann@example.org notification-type=MEMO"},
		"of the table":       {"{}", "{" + placement + ": 'recipient_email:header:recipient'}", []string{"recipient_email"}, "recipient=ann@example.org"},
		"of both":            {"{" + placement + ": 'cc:header'}", "{" + placement + ": 'recipient_email:header:recipient'}", []string{"recipient_email"}, "recipient=ann@example.org"},
		"other of the table": {"{" + placement + ": 'cc:header'}", "{table.field.additional.missing: ignore}", []string{"recipient_email", "notification_type", "cc"}, "to=ann@example.org notification-type=MEMO cc=bob@example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := "source: {kind: postgres, url: x, tables: [{shape: memo, router: " + c.own + "}]}\nrouter: " + c.shared + "\n"
			got, err := read(t, "", yaml)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.fields, got.Source.Tables[0].Fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			var d sink.Delivery
			if _, err := got.Router.Route(row, &d); err != nil {
				t.Fatal(err)
			}
			var headers []string
			for _, h := range d.Headers {
				headers = append(headers, h.Name+"="+string(h.Value))
			}
			if got := strings.Join(headers, " "); got != c.want {
				t.Errorf("headers %s, want %s", got, c.want)
			}
		})
	}
	// What is wrong with it is told once, where it stands.
	_, err := read(t, "", "source: {kind: postgres, url: x, tables: [{shape: memo}]}\nrouter: {"+placement+": 'cc:nowhere'}\n")
	if err == nil || strings.Count(err.Error(), "nowhere") != 2 || !strings.Contains(err.Error(), "router."+placement) || strings.Contains(err.Error(), "tables") {
		t.Errorf("error %v, want one of the shared option", err)
	}
}

// Where tables of several shapes are in one pipeline, each has its own retry, until the file says otherwise.
func TestRetryOfSeveralShapes(t *testing.T) {
	t.Parallel()
	attempts := func(yaml, table string) int {
		t.Helper()
		c, err := read(t, "", "source: {kind: postgres, url: x, tables: [{shape: yantra}, {shape: gopipe}, {shape: talkie}]}\n"+yaml)
		if err != nil {
			t.Fatal(err)
		}
		route, err := c.Router.Route(&outbox.Message{ID: "1", Table: "public." + table, Type: "x"}, &sink.Delivery{})
		if err != nil {
			t.Fatal(err)
		}
		return route.Retry.Attempts
	}
	for table, want := range map[string]int{"outbox_messages": 4, "message_outbox": 10, "outbox": router.DefaultRetry().Attempts} {
		if got := attempts("", table); got != want {
			t.Errorf("%s: %d attempts, want %d", table, got, want)
		}
		if got := attempts("retry: {attempts: 7}\n", table); got != 7 {
			t.Errorf("%s: %d attempts, want the file's 7", table, got)
		}
		if got := attempts("routes: [{match: {type: x}, to: out, retry: {attempts: 3}}, {to: out}]\n", table); got != 3 {
			t.Errorf("%s: %d attempts, want the route's 3", table, got)
		}
		if got := attempts("routes: [{match: {type: y}, to: out, retry: {attempts: 3}}, {to: out}]\n", table); got != want {
			t.Errorf("%s: %d attempts on a route without retry, want %d", table, got, want)
		}
	}
}

func TestTopicOfTable(t *testing.T) {
	t.Parallel()
	topic := func(table string, m *outbox.Message) string {
		t.Helper()
		c, err := read(t, "", "source: {kind: postgres, url: x, tables: ["+table+"]}\n")
		if err != nil {
			t.Fatal(err)
		}
		var d sink.Delivery
		m.Table = "public." + c.Source.Tables[0].Name
		if _, err := c.Router.Route(m, &d); err != nil {
			t.Fatal(err)
		}
		return d.Topic
	}
	subject := []outbox.Header{{Name: "subject", Value: []byte("orders.paid")}}
	for table, want := range map[string]string{
		"{shape: gopipe}": "orders.paid", "{shape: yantra}": "email.send", "{shape: talkie}": "as-written",
		"{shape: yantra, topic: 'mail.${header.subject}'}": "mail.orders.paid", "{columns: {topic: null, group: null}, topic: all}": "all",
		"{topic: every}": "every",
	} {
		if got := topic(table, &outbox.Message{ID: "1", Type: "email.send", Topic: "as-written", Headers: subject}); got != want {
			t.Errorf("%s: topic %q, want %q", table, got, want)
		}
	}
	for yaml, want := range map[string]string{
		"{shape: talkie, columns: {topic: t}, topic: x}": "stands beside columns.topic",
		"{shape: yantra, topic: '${nothing}'}":           "source.tables[0].topic \"${nothing}\": names ${nothing}: a topic can be made of type",
	} {
		if _, err := read(t, "", "source: {kind: postgres, url: x, tables: ["+yaml+"]}\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", yaml, err, want)
		}
	}
}

func TestShapeTables(t *testing.T) {
	t.Parallel()
	tables, err := config.ShapeTables("flowcatalyst", "mongodb")
	if err != nil || len(tables) != 2 || tables[1].Name != "outbox_dispatch_jobs" || tables[1].Columns.ID != "_id" {
		t.Errorf("flowcatalyst: %+v, %v", tables, err)
	}
	if _, err := config.ShapeTables("nothing", "postgres"); err == nil || !strings.Contains(err.Error(), "choose one of debezium") {
		t.Errorf("nothing: %v", err)
	}
}

// Backticks, as MySQL writes them, quote a name as double quotes do.
func TestTableNameQuotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{"`cap.published`": {"", "cap.published"}, "`my.shop`.`out``box`": {"my.shop", "out`box"}, `shop."a""b"`: {"shop", `a"b`},
		"shop.outbox": {"shop", "outbox"}} {
		schema, name, err := config.SplitTable(text)
		if got := [2]string{schema, name}; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"`open", "a`b", "``", `"mixed` + "`"} {
		if _, _, err := config.SplitTable(text); err == nil {
			t.Errorf("%s was read without an error", text)
		}
	}
}

// TestReferences: parts of a message that no column holds, and what is wrong with one.
func TestReferences(t *testing.T) {
	t.Parallel()
	table := func(text string) string {
		return "source: {kind: postgres, url: x, tables: [{shape: tailbox, " + text + "}]}\n"
	}
	c, err := read(t, "", table(`columns: {type: "${header.event-type}", topic: "${payload.a.b}", group: "${header.p}", key: null}, ungrouped: "*", headers: {deny: [p]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Source.Tables[0]
	want := []outbox.Reference{{Part: "type", Header: "event-type"}, {Part: "topic", Path: []string{"a", "b"}}, {Part: "group", Header: "p"}}
	if diff := cmp.Diff(want, got.References); diff != "" || got.Columns.Type+got.Columns.Topic+got.Topic != "" || got.Columns.Group != nil {
		t.Errorf("references (-want +got):\n%s%+v", diff, got)
	}
	if diff := cmp.Diff(outbox.HeaderFilter{Deny: []string{"p"}}, got.Headers); diff != "" || len(got.Ungrouped) != 1 || got.Ungrouped[0] != "*" {
		t.Errorf("headers (-want +got):\n%s%+v", diff, got)
	}
	for text, want := range map[string]string{
		`columns: {id: "${header.x}"}`:                       `columns.id "${header.x}": is no column: only type, topic, group, key, tenant can come from a header`,
		`columns: {type: "${x}"}`:                            `columns.type "${x}": is no reference: write ${header.NAME}`,
		`columns: {group: [a, "${header.x}"]}`:               `is a reference in a list: a group is made of columns, or of one reference alone`,
		`columns: {topic: "${header.x}"}, topic: y`:          `stands beside columns.topic`,
		`columns: {tenant: "${header.x}"}, tenants: [a]`:     `needs a column that holds the tenant`,
		`headers: {only: [a]}`:                               `headers.only: unknown key`,
		`columns: {nope: "${header.x}"}`:                     `is no column`,
		`columns: {type: "${header.x}"}, headers: {deny: 1}`: "",
	} {
		_, err := read(t, "", table(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestSet: what columns of one's own get with a state, and what is wrong with it.
func TestSet(t *testing.T) {
	t.Parallel()
	table := func(text string) string {
		return "source: {kind: postgres, url: x, tables: [{shape: tailbox, " + text + "}]}\n"
	}
	c, err := read(t, "", table(`set: {dead: {blocked: true, at: now, note: null, n: 5}, delivered: {"\"At\"": now}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []outbox.SetValue{{State: "delivered", Column: "At", Value: "now", Now: true}, {State: "dead", Column: "blocked", Value: "true"},
		{State: "dead", Column: "at", Value: "now", Now: true}, {State: "dead", Column: "note", Null: true}, {State: "dead", Column: "n", Value: "5"}}
	if diff := cmp.Diff(want, c.Source.Tables[0].Set); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	const two = "words: {pending: 0, retrying: 0, waiting: 0, dead: 0, delivered: 1}"
	for text, want := range map[string]string{
		`set: {pending: {a: 1}}`:                            `set.pending: unknown key`,
		`set: {dead: {status: x}}`:                          `set.dead.status "x": is a column that tailbox reads or writes itself`,
		`set: {dead: {a: 1}}, on_delivered: keep`:           `has no effect with on_delivered: keep`,
		`set: {delivered: {a: 1}}, on_delivered: delete`:    `has no effect with on_delivered: delete`,
		`set: {dead: [a]}`:                                  `set.dead: must be a mapping`,
		`columns: {failures: attempts}`:                     `columns.failures "attempts": is the column of attempts, too, and tailbox writes both: name another one, or take one away (attempts: null)`,
		`columns: {failures: attempts}, on_delivered: keep`: "",
		`columns: {failures: attempts, attempts: null}`:     "",
		two:                                    `words.dead "0": is the word for pending too`,
		`set: {dead: {a: null, b: 1}}, ` + two: `set.dead.a "null": does not tell which rows are dead`,
		`set: {dead: {a: 1}}, ` + two:          "",
		`words: {pending: false, retrying: false, waiting: false, dead: false, delivered: true}`: "",
		`words: {pending: true, retrying: true, waiting: true, dead: true, delivered: false}`:    "",
	} {
		_, err := read(t, "", table(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// The word for pending may be a list: the first one is written, the others are those of the program that had the table before.
func TestPendingWords(t *testing.T) {
	t.Parallel()
	words := func(words string) (*config.Config, error) {
		return read(t, "", "source: {kind: postgres, url: x, tables: [{shape: tailbox, words: {"+words+"}}]}\n")
	}
	for text, want := range map[string]string{"pending: new": "new []", "pending: [new]": "new []", "pending: [new, sending, held]": "new [sending held]", "dead: bad": "pending []"} {
		c, err := words(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fmt.Sprint(c.Source.Tables[0].Words.Pending, " ", c.Source.Tables[0].AlsoPending); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"pending: [new, delivered]": "is the word for pending too", "pending: [new, 7]": "mixes whole numbers and words"} {
		if _, err := words(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
