package store_test

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// A message with the id of a parked delivery is another message if its transaction is another one, as far as positions show that.
func TestOwnIDs(t *testing.T) {
	t.Parallel()
	parked := outbox.Position{Log: 1, Commit: 5, N: 2}
	for _, c := range []struct {
		what        string
		at          outbox.Position
		sameCommits bool
		detached    bool
		own         bool
	}{
		{"read again", parked, true, false, false},
		{"counted in another way", outbox.Position{Log: 2, Commit: 5, N: 3}, true, false, false},
		{"another transaction", outbox.Position{Log: 1, Commit: 6}, true, false, true},
		{"another transaction, where servers number their own", outbox.Position{Log: 1, Commit: 6}, false, false, true},
		{"another transaction in a log that goes on elsewhere", outbox.Position{Log: 2, Commit: 6}, true, false, true},
		{"read again, and its row is gone", parked, true, true, false},
		{"its number began anew in a new log", outbox.Position{Log: 2, Commit: 5}, true, true, true},
		{"in the log of another server, and the row was dealt with", outbox.Position{Log: 2, Commit: 6}, false, true, false},
		{"who knows, in the log of another server", outbox.Position{Log: 2, Commit: 6}, false, false, false},
	} {
		m := &outbox.Message{ID: "7", Table: "t", Position: c.at}
		other := &outbox.Message{ID: "8", Table: "t", Position: c.at}
		in := []checkpoint.Parked{{Sink: "a", Message: other}, {Sink: "a", Message: m}, {Sink: "b", Message: m}}
		out := store.OwnIDs(in, c.sameCommits, func(k checkpoint.Key) store.Place {
			if k == (checkpoint.Key{Sink: "a", Table: "t", ID: "7"}) {
				return store.Place{Position: parked.String(), Detached: c.detached}
			}
			return store.Place{}
		})
		var got []string
		for i := range out {
			p := &out[i]
			got = append(got, fmt.Sprint(p.Message.ID, outbox.IsStandInID(p.RowID()), store.TableID(p)))
		}
		if want := fmt.Sprint([]string{"8false8", fmt.Sprint("7", c.own, "7"), "7false7"}); fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", c.what, got, want)
		}
		if in[1].Original != "" {
			t.Errorf("%s: the caller's deliveries were changed", c.what)
		}
	}
}

// Two messages of one settlement with one id, at one sink, are two.
func TestOwnIDsWithinASettlement(t *testing.T) {
	t.Parallel()
	in := []checkpoint.Parked{{Sink: "a", Message: &outbox.Message{ID: "7", Table: "t", Position: outbox.Position{Commit: 5}}},
		{Sink: "a", Message: &outbox.Message{ID: "7", Table: "t", Position: outbox.Position{Commit: 6}}}}
	out := store.OwnIDs(in, true, nil)
	if out[0].RowID() != "7" || !outbox.IsStandInID(out[1].RowID()) || out[1].Message.ID != "7" {
		t.Errorf("got %s and %s", out[0].RowID(), out[1].RowID())
	}
}
