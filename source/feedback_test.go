package source_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// shown is a statement with its parameters named.
func shown(f *source.Feedback) string {
	var b strings.Builder
	for i, text := range f.Texts {
		b.WriteString(text)
		if i < len(f.Params) {
			p := f.Params[i]
			b.WriteString("<")
			if p.Column {
				b.WriteString("column ")
			}
			b.WriteString(p.Name + ">")
		}
	}
	return b.String()
}

// In MySQL a backslash in quotes takes the next byte as it is, and # begins a comment: what is put there for a parameter would end the text.
func TestParseFeedbackMySQL(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		`UPDATE o SET s = 'it\'s :key' WHERE i = :id`:       `UPDATE o SET s = 'it\'s :key' WHERE i = <id>`,
		`UPDATE o SET s = "a\":key" WHERE i = :id`:          `UPDATE o SET s = "a\":key" WHERE i = <id>`,
		`UPDATE o SET s = '\\', k = :key, t = ':id\\'':id'`: `UPDATE o SET s = '\\', k = <key>, t = ':id\\'':id'`,
		"UPDATE o SET s = :id, `a\\` = :key # it's :key":    "UPDATE o SET s = <id>, `a\\` = <key> # it's :key",
	} {
		f, err := source.ParseFeedbackMySQL(outbox.OutcomeDead, sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if got := shown(f); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if _, err := source.ParseFeedbackMySQL(outbox.OutcomeDead, `UPDATE o SET s = 'a\'`); err == nil {
		t.Error("a quote that a backslash escapes ended the text")
	}
}

// Parameters are found where they are, and nowhere else: not in quotes, comments, casts and assignments.
func TestParseFeedback(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"UPDATE orders SET s = 'x' WHERE id = :key":            "UPDATE orders SET s = 'x' WHERE id = <key>",
		"update o set s = :error::text where k=:key;":          "update o set s = <error>::text where k=<key>",
		"UPDATE o SET s = ':key', t = E'\\':key' WHERE i=:id":  "UPDATE o SET s = ':key', t = E'\\':key' WHERE i=<id>",
		"UPDATE o SET s = 'it''s :key' WHERE \":key\" = :id":   "UPDATE o SET s = 'it''s :key' WHERE \":key\" = <id>",
		"UPDATE `:key` SET a = :id -- :key":                    "UPDATE `:key` SET a = <id> -- :key",
		"UPDATE o /* :key ; */ SET a = :id":                    "UPDATE o /* :key ; */ SET a = <id>",
		"SELECT f($x$ :key ; $x$, :id)":                        "SELECT f($x$ :key ; $x$, <id>)",
		"UPDATE o SET a = @v := 1, b = :id":                    "UPDATE o SET a = @v := 1, b = <id>",
		"UPDATE o SET a = :header.trace-id, b = :order_no":     "UPDATE o SET a = <header.trace-id>, b = <column order_no>",
		"UPDATE o SET a = :\"Order \"\"No\"\"\", b = :\"key\"": "UPDATE o SET a = <column Order \"No\">, b = <column key>",
		"WITH x AS (SELECT 1) UPDATE o SET a = 1":              "WITH x AS (SELECT 1) UPDATE o SET a = 1",
		"UPDATE o SET a = 1":                                   "UPDATE o SET a = 1",
		"UPDATE o SET a = '$2', b$2 = :id -- $3":               "UPDATE o SET a = '$2', b$2 = <id> -- $3",
		"SELECT f($x1$ :key $2 $x1$, \"$2\", :id /* $2 */)":    "SELECT f($x1$ :key $2 $x1$, \"$2\", <id> /* $2 */)",
		"SELECT a$x$, :id, a$x$":                               "SELECT a$x$, <id>, a$x$",
		"SELECT é$1, e'\\' :key', :id":                         "SELECT é$1, e'\\' :key', <id>",
	} {
		f, err := source.ParseFeedback(outbox.OutcomeDead, sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if got := shown(f); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for sql, want := range map[string]string{
		"":                                "must be one statement",
		"COMMIT":                          "must be one statement",
		"DROP TABLE orders":               "must be one statement",
		"CALL p(:id)":                     "must be one statement",
		"UPDATE o SET a = 1; COMMIT":      "in the middle",
		"UPDATE o SET a = 'x":             "does not end",
		"UPDATE o SET a = :receipt":       "delivered message only",
		"UPDATE o SET a = :header.":       "names no header",
		"UPDATE o SET a = $a$ :key $b$":   "does not end",
		"update_all":                      "must be one statement",
		"UPDATE o SET a = $2":             "has $2, which stands for nothing: name what is meant",
		"UPDATE o SET a = :id + 1$12":     "has $12, which",
		"UPDATE o SET a = :id$1":          "has $1, which",
		"UPDATE o SET a = 1 /* never end": "does not end",
	} {
		if _, err := source.ParseFeedback(outbox.OutcomeRetrying, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that says %q", sql, err, want)
		}
	}
	for _, name := range []string{"sink", "attempt", "error", "class"} {
		if _, err := source.ParseFeedback(outbox.OutcomeDelivered, "UPDATE o SET a = :"+name); err == nil {
			t.Errorf(":%s is taken for a delivered message", name)
		}
	}
}

// A parameter is what the message says, and null where it says nothing.
func TestFeedbackValues(t *testing.T) {
	t.Parallel()
	o := &source.Outcome{Kind: outbox.OutcomeDead, RowID: "row", Sink: "mail", Attempt: 4, Error: "no", Class: "rejected", Message: &outbox.Message{
		ID: "edited", Type: "T", Topic: "t", Group: "g", Key: []byte("k"), Payload: []byte{}, Table: "public.outbox",
		Headers:    []outbox.Header{{Name: "trace-id", Value: []byte("1")}, {Name: "none"}},
		Fields:     []outbox.Field{{Name: "order_no", Value: []byte("17")}, {Name: "gone", Null: true}},
		Position:   outbox.Position{Log: 1, Commit: 2, N: 3},
		CommitTime: time.Date(2024, 2, 29, 1, 2, 3, 4000, time.FixedZone("", 3600)),
	}}
	f, err := source.ParseFeedback(outbox.OutcomeDead, `SELECT :id, :type, :topic, :group, :key, :payload, :tenant, :table, :position, :committed_at, :outcome,
		:sink, :attempt, :error, :class, :header.trace-id, :header.none, :header.other, :order_no, :gone, :missing, :order_no`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range f.Params {
		v, null := p.Value(o)
		if null {
			v = "NULL"
		}
		got = append(got, v)
	}
	want := strings.Split("row T t g k  NULL public.outbox 00000001-0000000000000002-00000003 2024-02-29_00:02:03.000004 dead mail 4 no rejected "+
		"1 NULL NULL 17 NULL NULL 17", " ")
	want[9] = strings.Replace(want[9], "_", " ", 1)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if columns := f.Columns(); !slices.Equal(columns, []string{"order_no", "gone", "missing"}) {
		t.Errorf("columns: got %q", columns)
	}
}

func TestParseFeedbackDocument(t *testing.T) {
	t.Parallel()
	f, err := source.ParseFeedbackDocument(outbox.OutcomeDead, `{"collection": "orders", "filter": {"_id": ":key:objectid", "no": ":order_no:int"},
		"update": {"$set": {"state": "dead", "why": ":error", "text": "::key", "at": ":", "h": ":header.a-b"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []source.Param{{Name: "key"}, {Name: "order_no", Column: true}, {Name: "error"}, {Name: "header.a-b"}}
	if !slices.Equal(f.Params, want) {
		t.Errorf("got %v, want %v", f.Params, want)
	}
	for _, update := range []string{`{"$set": {"a": {"b": [1]}}, "$inc": {"n": 1}}`, `[{"$set": {"why": ":error"}}, {"$unset": ["a", "b"]}]`} {
		if _, err := source.ParseFeedbackDocument(outbox.OutcomeDead, `{"collection": "o", "filter": {"a": 1}, "update": `+update+`}`); err != nil {
			t.Errorf("%s: %v", update, err)
		}
	}
	for text, want := range map[string]string{
		`{`: "must be {collection",
		`{"collection": "o", "filter": {"a": 1}, "update": {"$set": {"a": 1}}, "many": true}`:  "unknown field",
		`{"filter": {"a": 1}, "update": {"$set": {"a": 1}}}`:                                   "needs a collection",
		`{"collection": "o", "update": {"$set": {"a": 1}}}`:                                    "needs a filter",
		`{"collection": "o", "filter": {}, "update": {"$set": {"a": 1}}}`:                      "needs a filter",
		`{"collection": "o", "filter": {"a": 1}}`:                                              "needs an update",
		`{"collection": "o", "filter": {"a": 1}, "update": {}}`:                                "has an empty update",
		`{"collection": "o", "filter": {"a": 1}, "update": []}`:                                "has an empty update",
		`{"collection": "o", "filter": {"a": 1}, "update": {"state": "dead"}}`:                 `has an update whose key "state" is no operator`,
		`{"collection": "o", "filter": {"a": 1}, "update": {"$set": {"a": 1}, "b": 1}}`:        `has an update whose key "b" is no operator`,
		`{"collection": "o", "filter": {"a": 1}, "update": [{"$set": {"a": 1}}, ":payload"]}`:  "has an update whose stage 2 is no object with one operator",
		`{"collection": "o", "filter": {"a": 1}, "update": [{}]}`:                              "has an update whose stage 1 is no object with one operator",
		`{"collection": "o", "filter": {"a": 1}, "update": [{"$set": {"a": 1}, "$unset": 1}]}`: "has an update whose stage 1 is no object with one operator",
		`{"collection": "o", "filter": {"a": 1}, "update": [{"state": "dead"}]}`:               `has an update whose key "state" is no operator`,
		`{"collection": "o", "filter": {"a": ":id:money"}, "update": {"$set": {"a": 1}}}`:      "is no parameter",
		`{"collection": "o", "filter": {"a": ":receipt"}, "update": {"$set": {"a": 1}}}`:       "delivered message only",
		`{"collection": "o", "filter": {"a": ":id"}, "update": {"$set": {"a": ":id and id"}}}`: "is no parameter",
	} {
		if _, err := source.ParseFeedbackDocument(outbox.OutcomeDead, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that says %q", text, err, want)
		}
	}
}
