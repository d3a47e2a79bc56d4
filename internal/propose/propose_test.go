package propose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/source/store/report"
)

// parsed is the YAML of a proposal as it is read.
type parsed struct {
	Source struct {
		Tables []struct {
			Name        string
			Shape       string
			Columns     map[string]any
			Words       map[string]any
			OnDelivered string `yaml:"on_delivered"`
			Set         map[string]map[string]any
		}
	}
}

// Whatever a table is, the proposal is YAML that names columns of the table, each for one purpose, and never leaves out what becomes of a row unless it asks.
func TestAnyTable(t *testing.T) {
	t.Parallel()
	var names []string
	for _, r := range roles() {
		names = append(names, strings.Fields(r.names)...)
	}
	names = append(names, strings.Fields("id uuid message_id aggregate_type aggregate_id aggregatetype aggregateid key partition_key queue priority processed is_sent abandoned_at")...)
	names = append(names, "a\nb: c", `q"uote`, "#", "null", "'", "x`y", "ключ", "", "- a", "Status", "PAYLOAD", "Event-Type")
	words := strings.Fields(wordsPending + " " + wordsDelivered + " " + wordsDead + " " + wordsRetrying + " " + wordsInFlight + " 0 1 2 -1 other x'y")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		table := &report.Table{Schema: names[r.IntN(len(names))], Name: names[r.IntN(len(names))], Quote: []string{`"`, "`"}[r.IntN(2)], Rows: r.IntN(3)}
		for range 1 + r.IntN(15) {
			c := report.Column{Name: names[r.IntN(len(names))], Type: "a type", Class: report.Class(r.IntN(int(report.UUID) + 1)), NotNull: r.IntN(2) == 0, Numbered: r.IntN(5) == 0}
			if slices.ContainsFunc(table.Columns, func(o report.Column) bool { return o.Name == c.Name }) {
				continue
			}
			for range r.IntN(4) {
				word := words[r.IntN(len(words))]
				c.Look(word)
				c.Values = append(c.Values, report.Value{Text: word, Rows: 1})
			}
			if r.IntN(4) == 0 {
				c.Default = "'" + words[r.IntN(len(words))] + "'::text"
			}
			if r.IntN(4) == 0 {
				c.Labels = words[:r.IntN(len(words))]
			}
			table.Columns = append(table.Columns, c)
			if r.IntN(6) == 0 {
				table.Unique = append(table.Unique, []string{c.Name})
			}
		}
		text := Of(table).YAML()
		if why := wrong(table, text); why != "" {
			t.Fatalf("table %d: %s:\n%s", i, why, text)
		}
	}
}

// wrong says what is wrong with a proposal; "" if nothing is.
func wrong(table *report.Table, text string) string {
	var p parsed
	if err := yaml.Unmarshal([]byte(text), &p); err != nil {
		return err.Error()
	}
	if len(p.Source.Tables) != 1 {
		return "no table"
	}
	got := p.Source.Tables[0]
	used := map[string]string{}
	asks := false
	for key, value := range got.Columns {
		for _, name := range flat(value) {
			switch {
			case name == Unknown:
				asks = true
				continue
			case !slices.ContainsFunc(table.Columns, func(c report.Column) bool {
				return c.Name == strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`) || c.Name == name
			}):
				return fmt.Sprintf("%s names the column %q, which is none", key, name)
			case used[name] != "" && !strings.Contains("key group topic seq", key) && !strings.Contains("key group topic seq", used[name]):
				return fmt.Sprintf("%q is %s and %s", name, key, used[name])
			}
			used[name] = key
		}
	}
	for state, columns := range got.Set {
		for name := range columns {
			if used[name] != "" && used[name] != "set" || !slices.ContainsFunc(table.Columns, func(c report.Column) bool {
				return c.Name == strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`) || c.Name == name
			}) {
				return fmt.Sprintf("set.%s names the column %q, which is none, or %s", state, name, used[name])
			}
			used[name] = "set"
		}
	}
	two := got.Set["dead"] != nil || got.Words["pending"] == false
	for _, key := range strings.Fields("attempts failures last_attempt_at next_attempt_at last_error updated_at") {
		if (got.OnDelivered == "delete" || got.OnDelivered == "keep") && got.Columns["status"] == nil && got.Columns[key] != nil {
			return key + " is never written"
		}
	}
	switch {
	case got.OnDelivered == "" && !asks:
		return "nothing says what becomes of a row, and nothing is asked"
	case got.Columns["status"] != nil && got.Words == nil && !asks:
		return "a status without words"
	case got.Words != nil && (got.Words["delivered"] == got.Words["pending"] || got.Words["dead"] == got.Words["pending"] && !two || got.Words["dead"] == got.Words["delivered"]):
		return "two states have one word"
	}
	return ""
}

func flat(value any) (names []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			names = append(names, fmt.Sprint(one))
		}
	}
	return names
}

// TestColumnsThatTell: a time that is set later may tell what was delivered or given up, and a name that merely begins like a word tells nothing.
func TestColumnsThatTell(t *testing.T) {
	t.Parallel()
	begin := []report.Column{{Name: "id", Type: "bigint", Class: report.Number, NotNull: true, Numbered: true}, {Name: "payload", Type: "jsonb", Class: report.JSON, NotNull: true},
		{Name: "created_at", Type: "timestamptz", Class: report.Time, NotNull: true}}
	at := func(name string) report.Column {
		return report.Column{Name: name, Type: "timestamptz", Class: report.Time}
	}
	for name, c := range map[string]struct {
		columns   []report.Column
		want, not []string
	}{
		"delivered": {[]report.Column{at("enqueued_at")}, []string{`on_delivered: "???"`, "Does enqueued_at, of type timestamptz, tell which rows were delivered?"}, []string{"cannot use"}},
		"given up":  {[]report.Column{at("processed_at"), at("dead_lettered_at")}, []string{"dead: {dead_lettered_at: now}", "delivered_at: processed_at"}, nil},
		"who knows": {[]report.Column{at("processed_at"), at("buried_at")}, []string{"tailbox does not look at buried_at"}, nil},
		"behind a flag": {[]report.Column{at("processed_at"), {Name: "urgent", Type: "boolean", Class: report.Bool}, at("buried_at")},
			[]string{"tailbox does not look at urgent", "tailbox does not look at buried_at"}, nil},
		"put into a queue": {[]report.Column{{Name: "enqueue_time", Type: "timestamptz", Class: report.Time}}, []string{"Does enqueue_time tell when a message may be sent"}, nil},
		"a text for later": {[]report.Column{{Name: "send_at", Type: "text", Class: report.Text}}, []string{"Does send_at tell when a message may be sent"}, nil},
		"a shared key":     {[]report.Column{{Name: "dedup_key", Type: "text", Class: report.Text}}, []string{"a value of its own in dedup_key"}, []string{"idempotency_key: dedup_key  #"}},
		"another body":     {[]report.Column{{Name: "payload_binary", Type: "bytea", Class: report.Binary}}, []string{"Both payload and payload_binary may be the body"}, nil},
		"an order":         {[]report.Column{{Name: "seq", Type: "bigint", Class: report.Number}}, []string{"Does seq count messages"}, nil},
		"segments": {[]report.Column{{Name: "aggregate_id", Type: "text", Class: report.Text}, {Name: "segment", Type: "text", Class: report.Text}},
			[]string{"messages with one segment", "those with NULL have none"}, nil},
		"deleted": {[]report.Column{{Name: "status", Type: "text", Class: report.Text, Default: "'pending'::text", Labels: []string{"pending", "sent", "failed", "dlq"}}, at("deleted_at")},
			[]string{"tailbox does not look at deleted_at", "dead: dlq", "pending: [pending, failed]", "retrying: failed"}, nil},
		"a type that some rows lack": {[]report.Column{{Name: "type", Type: "text", Class: report.Text, Nulls: 2}}, []string{"type is NULL in 2 of the 3 rows", `type: "???"`}, nil},
		"a topic that some lack":     {[]report.Column{{Name: "topic", Type: "text", Class: report.Text, Nulls: 2}}, []string{"topic is NULL in 2 of the 3 rows", "topic: topic"}, nil},
		"perhaps headers":            {[]report.Column{{Name: "metadata", Type: "jsonb", Class: report.JSON}}, []string{"each key of metadata as a header", "headers: metadata"}, nil},
		"a trace":                    {[]report.Column{{Name: "sentry_trace_id", Type: "text", Class: report.Text}}, []string{"on_delivered: delete"}, []string{"seems to tell"}},
	} {
		text := Of(&report.Table{Schema: "public", Name: "outbox", Quote: `"`, Rows: 3, Unique: [][]string{{"id"}}, Columns: append(slices.Clone(begin), c.columns...)}).YAML()
		for _, part := range c.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in\n%s", name, part, text)
			}
		}
		for _, part := range c.not {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q in\n%s", name, part, text)
			}
		}
	}
}
