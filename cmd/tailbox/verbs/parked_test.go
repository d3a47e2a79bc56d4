package verbs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// TestListsAreAligned: every column starts at one place in every line, whatever a line lacks; what is too wide is whole, and moves
// only its own line.
func TestListsAreAligned(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("x", 200)
	lane := func(sink, group string, m *outbox.Message) operate.WaitingLane {
		l := operate.WaitingLane{Sink: sink, Group: group, Held: m == nil}
		if m != nil {
			l.Deliveries, l.First = 1, &store.Listed{Parked: checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, LastError: "boom"}}
		}
		return l
	}
	var b strings.Builder
	if err := printLanes(&b, []operate.WaitingLane{lane("", "order:1", nil), lane("mail", "order:2", nil),
		lane("mail", "order:3", &outbox.Message{ID: "id-3", Type: "Placed"}), lane("mail", wide, &outbox.Message{ID: wide, Type: "Placed"})}, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 5 || strings.Count(lines[4], wide) != 2 {
		t.Fatalf("lines:\n%s", b.String())
	}
	for _, name := range []string{"GROUP", "PARKED", "WAITS", "FIRST", "TYPE", "ATTEMPTS", "NEXT", "ERROR"} {
		at := strings.Index(lines[0], name)
		for _, line := range lines[1:4] {
			if len(line) <= at || line[at-1] != ' ' || line[at] == ' ' {
				t.Errorf("nothing starts under %s:\n%s", name, b.String())
			}
		}
	}
	if len(lines[0]) > 150 || strings.Contains(b.String(), " \n") {
		t.Errorf("lines:\n%s", b.String())
	}
}

// What a row holds can neither steer the terminal of whoever looks at it nor turn its text around.
func TestForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]52;c;c2VjcmV0\a\x1b[2J\u009b2J\u202egnp.exe\u200b\r"
	found := []store.Listed{{Parked: checkpoint.Parked{Sink: "api", State: checkpoint.StateDead, LastError: hostile, ErrorClass: "rejected",
		Message: &outbox.Message{ID: hostile, Type: hostile, Group: hostile, Topic: hostile, Key: []byte(hostile), Payload: []byte("line 1\n\tline 2" + hostile),
			Headers: []outbox.Header{{Name: hostile, Value: []byte(hostile)}}}}}}
	var b bytes.Buffer
	if err := printDetails(&b, found); err != nil {
		t.Fatal(err)
	}
	if err := printParked(&b, 0, found, false); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\a\r\u009b\u202e\u200b") || !strings.Contains(text, "line 1\n\tline 2\\u001b]52") {
		t.Errorf("printed:\n%q", text)
	}
}
