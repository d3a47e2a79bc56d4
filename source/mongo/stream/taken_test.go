package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// tokens are the texts of the tokens of n events from now on, whose documents write makes.
func tokens(r *mongotest.Rig, n int, write func()) (texts []string) {
	r.T.Helper()
	changes, err := r.Collection(0).Watch(r.Ctx, mongo.Pipeline{})
	r.Must(err)
	defer func() { _ = changes.Close(r.Ctx) }()
	write()
	for range n {
		if !changes.Next(r.Ctx) {
			r.T.Fatal(changes.Err())
		}
		// The event's own: behind the last event of a batch, the cursor has a token of what the server has read since, for others, too.
		texts = append(texts, changes.Current.Lookup("_id", "_data").StringValue())
	}
	return texts
}

// Another reader's token is where a pipeline without a position begins: nothing that was committed after it is left out, and of what was before, only
// the transaction that it stands in comes again.
func TestTakeOverToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	found := tokens(r, 5, func() {
		r.Insert(r.Ctx, 0, "1", "{}")
		r.InTransaction(func(ctx context.Context) {
			r.Insert(ctx, 0, "2", "{}")
			r.Insert(ctx, 0, "3", "{}")
			r.Insert(ctx, 0, "4", "{}")
		})
		r.Insert(r.Ctx, 0, "5", "{}")
	})
	all := []string{"1", "2", "3", "4", "5"}
	for i, first := range []int{1, 2, 2, 2, 5} {
		r.Config.LeftOff = source.LeftOff{Position: found[i]}
		taken, err := New(r.Config).TakeOver(r.Ctx)
		r.Must(err)
		x := r.Read(source.Start{From: taken.Resume()})
		ms, _ := x.Messages(6 - first)
		mongotest.Equal(t, fmt.Sprintf("from the token of %d", i+1), mongotest.IDs(ms), strings.Join(all[first-1:], " "))
		x.Cancel()
	}
}

func TestTakeOverTokenRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	for name, token := range map[string]string{"long ago": "8200000001000000012B0229296E04", "to come": "82F0000001000000012B0229296E04"} {
		r.Config.LeftOff = source.LeftOff{Position: token}
		if _, err := New(r.Config).TakeOver(r.Ctx); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init, then commit a message") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.Config.LeftOff.Position = "x"
	if _, err := New(r.Config).TakeOver(r.Ctx); !errors.Is(err, source.ErrStop) {
		t.Errorf("no token: %v", err)
	}
	r.Config.LeftOff = source.LeftOff{}
	if taken, err := New(r.Config).TakeOver(r.Ctx); taken != nil || err != nil {
		t.Errorf("none is configured: %v, %v", taken, err)
	}
}
