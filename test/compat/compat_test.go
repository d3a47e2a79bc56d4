package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	sourcecolumns "github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// An answer is what a router made of a row.
type answer struct {
	Topic     string      `json:"topic"`
	Key       []byte      `json:"key"`
	Value     []byte      `json:"value"`
	Headers   [][2]header `json:"headers"`
	Partition *int32      `json:"partition"`
	// Timestamp is in milliseconds; nil is left to the sink.
	Timestamp *int64 `json:"timestamp"`
	Error     string `json:"error"`
}

// A header is its name, as it is, or its value in base64, or null.
type header = *string

func (a answer) equal(b answer) bool {
	if a.Error != "" || b.Error != "" {
		return a.Error != "" && b.Error != ""
	}
	return reflect.DeepEqual(a, b)
}

// sameBut compares all but the values.
func (a answer) sameBut(b answer) bool {
	a.Value, b.Value = nil, nil
	return a.equal(b)
}

func (a answer) String() string {
	if a.Error != "" {
		return "error: " + a.Error
	}
	text := fmt.Sprintf("topic %q key %s value %s", a.Topic, show(a.Key), show(a.Value))
	for _, h := range a.Headers {
		value := "nil"
		if h[1] != nil {
			value = string(decode64(*h[1]))
		}
		text += fmt.Sprintf(" %s=%q", *h[0], value)
	}
	if a.Partition != nil {
		text += fmt.Sprintf(" partition %d", *a.Partition)
	}
	if a.Timestamp != nil {
		text += fmt.Sprintf(" timestamp %d", *a.Timestamp)
	}
	return text
}

func show(b []byte) string {
	if b == nil {
		return "nil"
	}
	return strconv.Quote(string(b))
}

func decode64(s string) []byte {
	var b []byte
	if err := json.Unmarshal([]byte(strconv.Quote(s)), &b); err != nil {
		panic(err)
	}
	return b
}

// readingTime is what the harness gives Debezium as the time of reading.
const readingTime = 1000

// java runs a program of testdata with Debezium's classes, and returns what it prints.
func java(t *testing.T, program string, in []byte) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(servers.Debezium(t), "*"), filepath.Join("testdata", program))
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run Debezium: %v\n%s", err, stderr.String())
	}
	return out
}

// theirs runs Debezium: Compare.java says what it takes.
func theirs(t *testing.T, input map[string]any) [][]answer {
	t.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]answer
	decoder := json.NewDecoder(bytes.NewReader(java(t, "Compare.java", in)))
	for decoder.More() {
		var answers []answer
		if err := decoder.Decode(&answers); err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			if at := answers[i].Timestamp; at != nil && *at == readingTime {
				answers[i].Timestamp = nil // here it is the commit's, which the sink takes where the router has none
			}
		}
		all = append(all, answers)
	}
	return all
}

// faultID: a row cannot be without an id, before it comes to the router.
const faultID = "the row has no id"

// tableOf is the table as the configuration has it.
func tableOf(o router.Options) outbox.Table {
	shape, _ := outbox.ShapeNamed("debezium")
	table := outbox.Table{Schema: "inventory", Name: "outbox", Shape: shape.Name, Columns: shape.Columns}
	for key, column := range o.Columns() {
		*table.Columns.Field(key) = column
	}
	table.Fields, table.Optional = o.Fields(table.Columns), o.Optional()
	table.NeedsType = o.NeedsType(table.Columns)
	return table
}

// ours runs tailbox's router on what a source makes of the row.
func ours(o router.Options, r row) answer {
	table := tableOf(o)
	made, err := router.New(router.Config{Tables: []outbox.Table{table}, Options: o, Sinks: []string{"out"}})
	if err != nil {
		return answer{Error: err.Error()}
	}
	var names []string
	for _, c := range columns() {
		names = append(names, c.Name)
	}
	if _, err := sourcecolumns.New(&table, names, func(a, b string) bool { return a == b }); err != nil {
		return answer{Error: err.Error()}
	}
	m, fault := message(&table, r)
	if fault != "" {
		return answer{Error: fault}
	}
	return routed(made, m)
}

// routed is what the router makes of a message.
func routed(made *router.Router, m *outbox.Message) answer {
	var d sink.Delivery
	if _, err := made.Route(m, &d); err != nil {
		return answer{Error: err.Error()}
	}
	a := answer{Topic: d.Topic, Key: d.Key, Value: d.Value, Partition: d.Partition, Headers: [][2]header{}}
	if !d.Timestamp.IsZero() {
		a.Timestamp = new(d.Timestamp.UnixMilli())
	}
	for _, h := range sink.AppendHeaders(nil, &d, false) {
		pair := [2]header{&h.Name, nil}
		if h.Value != nil {
			text, _ := json.Marshal(h.Value)
			pair[1] = new(string(bytes.Trim(text, `"`)))
		}
		a.Headers = append(a.Headers, pair)
	}
	return a
}

// message is what a source makes of a row.
func message(t *outbox.Table, r row) (m *outbox.Message, fault string) {
	c := &t.Columns
	m = &outbox.Message{ID: string(text(r[c.ID])), Type: string(text(r[c.Type])), Topic: string(text(r[c.Topic])), Key: text(r[c.Key]), Payload: text(r[c.Payload]),
		Table: t.String()}
	if b, ok := r[c.Payload].([]byte); ok {
		m.Payload, m.Binary = b, true
	}
	switch n, _ := r[c.CreatedAt].(int64); {
	case n == 0:
	case c.CreatedAt == "micros":
		m.CreatedAt = time.UnixMicro(n)
	case c.CreatedAt == "millis":
		m.CreatedAt = time.UnixMilli(n)
	default:
		m.CreatedAt = time.Unix(0, n)
	}
	for _, name := range t.Fields {
		value, has := r[name]
		if !has {
			continue
		}
		m.Fields = append(m.Fields, outbox.Field{Name: name, Value: text(value), Null: value == nil, Type: typeOf(value)})
	}
	if m.ID == "" {
		return nil, faultID
	}
	return m, ""
}

func typeOf(v any) outbox.FieldType {
	switch v.(type) {
	case []byte:
		return outbox.FieldHex
	case int64, bool:
		return outbox.FieldBare
	}
	return outbox.FieldText
}

// text is a column's value as text.
func text(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		return fmt.Appendf(nil, `\x%x`, v)
	}
	return append([]byte{}, fmt.Sprint(v)...)
}

func TestRouterIsDebezium(t *testing.T) {
	t.Parallel()
	sets, table, meant := cases(), rows(), differences()
	if len(sets) < 60 {
		t.Fatalf("%d sets of options", len(sets))
	}
	debezium := theirs(t, map[string]any{"columns": columns(), "cases": sets, "rows": table})
	if len(debezium) != len(sets) {
		t.Fatalf("Debezium answered %d cases of %d", len(debezium), len(sets))
	}
	equal, failures := 0, 0
	explained := make([]int, len(meant))
	for i, o := range sets {
		for j, r := range table {
			want, got := debezium[i][j], ours(o, r)
			if want.equal(got) {
				equal++
				continue
			}
			n := slices.IndexFunc(meant, func(d difference) bool { return d.is(o, r, want, got) })
			if n >= 0 {
				explained[n]++
				continue
			}
			if failures++; failures <= 20 {
				t.Errorf("%s\nrow %v\nDebezium: %v\ntailbox:  %v", name(o), r, want, got)
			}
		}
	}
	t.Logf("%d sets of options, %d rows: %d equal, %d different without a reason", len(sets), len(table), equal, failures)
	for n, d := range meant {
		t.Logf("%d times: %s", explained[n], d.reason)
		if explained[n] == 0 {
			t.Errorf("a difference that does not occur: %s", d.reason)
		}
	}
}
