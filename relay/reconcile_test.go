package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// strangers is a store with pending rows that the log does not hold, of 600 KiB each.
type strangers struct {
	accepting
	left    *atomic.Int32
	largest *atomic.Int64
}

func (s strangers) Pending(context.Context, string, int) (*checkpoint.PendingRows, error) {
	out := &checkpoint.PendingRows{Barrier: "b", Commit: 5}
	for i := range s.left.Swap(0) {
		out.Rows = append(out.Rows, checkpoint.RowRef{Table: "public.outbox", ID: fmt.Sprint(i)})
	}
	return out, nil
}

func (s strangers) Fetch(_ context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	var ms []*outbox.Message
	total := 0
	for i, r := range rows {
		if total >= bytes {
			break
		}
		m := &outbox.Message{ID: r.ID, Table: r.Table, Topic: "order", Type: "T", Group: "g", Payload: make([]byte, 600<<10),
			Position: outbox.Position{Log: at.Log, Commit: at.Commit, N: uint32(i)}}
		ms, total = append(ms, m), total+m.Size()
	}
	s.largest.Store(max(s.largest.Load(), int64(total)))
	return ms, nil, nil
}

// barrierLater is a log that holds only the barrier of a listing, a minute after the start.
func barrierLater() *scripted {
	return &scripted{run: func(ctx context.Context, emit source.Emit) error {
		<-time.After(time.Minute)
		if err := emit(ctx, &source.Batch{Barrier: "b"}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
}

// What a reconciliation finds comes into memory piece by piece, in order, and all of it.
func TestReconcileKeepsWithinMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		store := strangers{left: new(atomic.Int32), largest: new(atomic.Int64)}
		store.left.Store(n)
		got := make(chan string, n)
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			got <- ds[0].Message.ID
			return nil
		}}
		end := started(t, relayWith(t, barrierLater(), to, store, 30*time.Second))
		late := time.After(10 * time.Minute)
		for i := range n {
			select {
			case id := <-got:
				if id != fmt.Sprint(i) {
					t.Errorf("row %s came as number %d", id, i)
				}
			case <-late:
				t.Fatalf("%d of %d rows came", i, n)
			}
		}
		end()
		if most := store.largest.Load(); most > 2<<20 {
			t.Errorf("%d bytes were brought into memory at once, where memory is 8 MiB", most)
		}
	})
}

// What is found comes behind what was found before a restart, if nothing was read between the two.
func TestFoundBehindOthersFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := outbox.Position{Log: 1, Commit: 5}
		for term := range 3 {
			store := strangers{left: new(atomic.Int32), largest: new(atomic.Int64)}
			store.left.Store(2)
			got := make(chan outbox.Position, 2)
			to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
				got <- ds[0].Message.Position
				return nil
			}}
			end := started(t, relayWith(t, barrierLater(), to, store, 30*time.Second))
			for range 2 {
				select {
				case at := <-got:
					if at.Compare(before) <= 0 {
						t.Errorf("term %d: a row got position %v, and %v was delivered before", term, at, before)
					}
					before = at
				case <-time.After(10 * time.Minute):
					t.Fatal("a row did not come")
				}
			}
			end()
		}
	})
}
