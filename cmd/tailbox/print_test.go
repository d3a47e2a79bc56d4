package main

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/store"
)

// TestListsAreAligned: every column starts at one place in every line, whatever a line lacks; what is too wide is whole, and moves
// only its own line.
func TestListsAreAligned(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("x", 200)
	lane := func(sink, group string, m *outbox.Message) postgres.WaitingLane {
		l := postgres.WaitingLane{Sink: sink, Group: group, Held: m == nil}
		if m != nil {
			l.Deliveries, l.First = 1, &postgres.Listed{Parked: checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, LastError: "boom"}}
		}
		return l
	}
	var b strings.Builder
	if err := printLanes(&b, []postgres.WaitingLane{lane("", "order:1", nil), lane("mail", "order:2", nil),
		lane("mail", "order:3", &outbox.Message{ID: "id-3", Type: "Placed"}), lane("mail", wide, &outbox.Message{ID: wide, Type: "Placed"})}, 0); err != nil {
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

// Numbers of a table that is polled go beyond those that have a sign.
func TestPollLinesOfLargeNumbers(t *testing.T) {
	t.Parallel()
	const want = "shop.outbox.seq is at 9223372036854775813, 7 numbers after the checkpoint"
	if got := pollLines(&store.PollReport{Sequence: "shop.outbox.seq", Last: 1<<63 + 5}, "9223372036854775806"); got[0][1] != want {
		t.Errorf("got %q, want %q", got[0][1], want)
	}
	if got := pollLines(&store.PollReport{Sequence: "shop.outbox.seq", Last: 1<<63 + 5}, "9223372036854775811"); !strings.HasSuffix(got[0][1], ", 2 numbers after the checkpoint") {
		t.Errorf("got %q", got[0][1])
	}
}
