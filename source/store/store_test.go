package store_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/store"
)

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func at(commit uint64, n uint32) outbox.Position {
	return outbox.Position{Log: 3, Commit: commit, N: n}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	above := map[string][]checkpoint.Range{"kafka": {{First: at(5, 0), Last: at(5, 9)}, {First: at(7, 1), Last: at(math.MaxUint64, math.MaxUint32)}},
		"": {{First: at(6, 0), Last: at(6, 0)}}, "q\"\\\n": {{First: at(9, 9), Last: at(9, 9)}}}
	text := string(store.AppendRanges([]byte("x"), above))
	got, err := store.ParseRanges(strings.TrimPrefix(text, "x"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "read again", got, above)
	if none, err := store.ParseRanges(""); none != nil || err != nil {
		t.Errorf("no text: %v, %v", none, err)
	}
	for _, bad := range []string{"{", `{"a": [["x", "y"]]}`, `{"a": [[1, 2]]}`} {
		if _, err := store.ParseRanges(bad); err == nil {
			t.Errorf("%s was read without an error", bad)
		}
	}
}

func TestHeaderAndFieldTexts(t *testing.T) {
	t.Parallel()
	headers := []outbox.Header{{Name: "b", Value: []byte("1")}, {Name: "a"}, {Name: "b", Value: []byte("two\x00\"\\\n\xff")}, {Name: "", Value: []byte{}}}
	got, err := store.ParseHeaders(store.HeadersJSON(headers))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "headers", got, headers)
	for _, binary := range []bool{false, true} {
		fields := outbox.Message{Binary: binary, Fields: []outbox.Field{{Name: "x", Value: []byte("y")}, {Name: "n", Null: true}, {Name: "z", Value: []byte{}},
			{Name: "b", Value: []byte("-7"), Type: outbox.FieldBare}, {Name: "t", Value: []byte("2024-01-02 03:04:05+00"), Type: outbox.ZonedType(6)},
			{Name: "e", Value: []byte{}, Type: outbox.FieldBytes}, {Name: "h", Value: []byte(`\xde`), Type: outbox.FieldHex}}}
		var read outbox.Message
		if err := store.ReadFields(&read, store.FieldsJSON(&fields)); err != nil {
			t.Fatal(err)
		}
		equal(t, "fields", read, fields)
		fields.Fields, read = nil, outbox.Message{}
		if err := store.ReadFields(&read, store.FieldsJSON(&fields)); err != nil || read.Binary != binary || len(read.Fields) > 0 {
			t.Errorf("no fields, binary %v: read %+v, %v", binary, read, err)
		}
	}
	for text, want := range map[string]string{`{"a\u00e4\ud83d\ude00\ud83d.\/\b\f\r\t": "x"}`: "a\u00e4\U0001F600\uFFFD./\b\f\r\t", `{"\u12": 1}`: "",
		`{"\x": 1}`: "", `{"a\`: "", `{"a\u00`: "", "{\"a\\n\n\": 1}": ""} {
		got, err := columns.AppendHeaders(nil, []byte(text))
		if want == "" && err == nil || want != "" && (len(got) != 1 || got[0].Name != want) {
			t.Errorf("%s was read as %q, %v, want %q", text, got, err, want)
		}
	}
	if store.HeadersJSON(nil) != nil || store.FieldsJSON(&outbox.Message{}) != nil {
		t.Error("no headers have a text")
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	long := store.ErrorText(strings.Repeat("\u00e4", store.MaxErrorText))
	if len(long) > store.MaxErrorText || strings.Trim(long, "\u00e4") != "" {
		t.Errorf("a long text became %d bytes, ending in %q", len(long), long[len(long)-4:])
	}
	equal(t, "bad bytes", store.ErrorText("a\x00b\xffc"), "a\uFFFDb\uFFFDc")
}

// Of several deliveries that are parked at once only the first of a lane gets a time, and none behind one of its group that
// has no sink.
func TestFirstOfLanes(t *testing.T) {
	t.Parallel()
	parked := func(sink, group string, n uint32, blocks bool) checkpoint.Parked {
		return checkpoint.Parked{Sink: sink, Message: &outbox.Message{Group: group, Position: at(1, n)}, State: checkpoint.StateWaiting, Blocks: blocks}
	}
	ps := []checkpoint.Parked{parked("a", "g", 5, true), parked("a", "g", 4, true), parked("a", "h", 6, true), parked("", "g", 3, true), parked("b", "g", 2, true),
		parked("a", "", 1, true), parked("a", "i", 1, false)}
	equal(t, "first", store.FirstOfLanes(ps), []bool{false, false, true, true, true, false, false})
}

// What the row of a message shows, and what becomes of it.
func TestDecide(t *testing.T) {
	t.Parallel()
	mark := store.TableView{OnDelivered: outbox.Mark, HasStatus: true, Shows: true, Viewable: true, Updatable: true}
	remove := store.TableView{OnDelivered: outbox.Delete}
	keep := store.TableView{OnDelivered: outbox.Keep}
	stamp := store.TableView{OnDelivered: outbox.Mark, Updatable: true} // delivered_at alone
	view := func(s checkpoint.State, attempts int) store.ParkedView {
		return store.ParkedView{State: s, Attempts: attempts, LastError: string(s)}
	}
	for name, c := range map[string]struct {
		table      store.TableView
		views      []store.ParkedView
		row        int
		del, touch bool
		want       store.RowChange
	}{
		"delivered":           {mark, nil, 0, false, true, store.RowChange{State: "delivered", Attempts: 1, Delivered: true}},
		"delivered, deleted":  {remove, nil, 0, true, true, store.RowChange{Attempts: 1}},
		"delivered, kept":     {keep, nil, 0, false, false, store.RowChange{Attempts: 1}},
		"dropped":             {mark, []store.ParkedView{view("dropped", 7)}, 0, false, true, store.RowChange{State: "dead", Attempts: 7, Failures: 7, Err: "dropped"}},
		"dropped, no status":  {stamp, []store.ParkedView{view("dropped", 7)}, 0, false, true, store.RowChange{State: "dead", Attempts: 7, Failures: 7, Err: "dropped", Delivered: true}},
		"the worst is shown":  {mark, []store.ParkedView{view("waiting", 0), view("dead", 3), view("dead", 4), view("retrying", 9)}, -1, false, true, store.RowChange{State: "dead", Attempts: 4, Failures: 4, Err: "dead"}},
		"parked, nothing to":  {stamp, []store.ParkedView{view("dead", 3)}, 0, false, false, store.RowChange{}},
		"the copy is enough":  {remove, []store.ParkedView{view("dead", 3)}, 0, true, true, store.RowChange{}},
		"deleted before":      {remove, []store.ParkedView{view("dead", 3)}, -1, true, false, store.RowChange{}},
		"the copy is not all": {remove, []store.ParkedView{{State: checkpoint.StateDead, InTable: true}}, 0, true, false, store.RowChange{}},
	} {
		m := &store.Message{Row: c.row}
		for _, v := range c.views {
			m.See(v)
		}
		var got store.RowChange
		del, touch := c.table.Decide(m, &got)
		if del != c.del || touch != c.touch {
			t.Errorf("%s: delete %v, touch %v, want %v, %v", name, del, touch, c.del, c.touch)
		}
		equal(t, name, got, c.want)
	}
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	message := func(row int, change func(*store.Message), states ...checkpoint.State) *store.Message {
		m := &store.Message{Row: row}
		for _, s := range states {
			m.See(store.ParkedView{State: s})
		}
		if change != nil {
			change(m)
		}
		return m
	}
	over := message(0, nil, checkpoint.StateDelivered)
	kept := message(1, nil, checkpoint.StateDelivered, checkpoint.StateDead)
	skipped := message(2, nil, checkpoint.StateDelivered)
	locked := message(-1, func(m *store.Message) { m.Settled, m.Locked = true, true }, checkpoint.StateDelivered)
	early := message(-1, nil, checkpoint.StateDelivered) // another delivery of it is on its way
	c := store.CleanupOf([]*store.Message{over, kept, skipped, locked, early}, map[int]bool{2: true})
	same := func(what string, got []*store.Message, want ...*store.Message) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d messages, want %d", what, len(got), len(want))
		}
	}
	same("over", c.Over, over)
	same("kept", c.Kept, kept)
	same("unfinished", c.Unfinished, locked)
	same("settled", c.Settled, over, kept, locked)
	equal(t, "what is noted", append(c.UnfinishedWant, c.Locked), []bool{true, true})
}

func TestEdited(t *testing.T) {
	t.Parallel()
	old := &outbox.Message{ID: "1", Type: "T", Headers: []outbox.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("3")}},
		Fault: &outbox.Fault{}}
	before := slices.Clone(old.Headers)
	typ, payload := "U", []byte("p")
	m := store.Edited(old, &checkpoint.Edit{Type: &typ, Payload: &payload, Headers: map[string]string{"a": "9", "c": "4"}})
	equal(t, "headers", m.Headers, []outbox.Header{{Name: "a", Value: []byte("9")}, {Name: "b", Value: []byte("2")}, {Name: "c", Value: []byte("4")}})
	if m.Type != "U" || string(m.Payload) != "p" || m.Fault != nil {
		t.Errorf("edited: %+v", m)
	}
	equal(t, "the old one's headers", old.Headers, before)
}

func TestNewUUID(t *testing.T) {
	t.Parallel()
	a, b := store.NewUUID(), store.NewUUID()
	if len(a) != 36 || a == b || a[14] != '4' || !strings.ContainsRune("89ab", rune(a[19])) {
		t.Errorf("%s and %s", a, b)
	}
}
