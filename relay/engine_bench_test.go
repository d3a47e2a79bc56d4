package relay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// replay is a source that emits b.N prepared messages, and is done when all of them are confirmed: the benchmark measures the
// engine alone.
type replay struct {
	source.Source
	n, groups int
	done      chan struct{}
	last      source.Resume
}

func (r *replay) Examine(context.Context, string, source.Resume) (*source.Examined, error) {
	return &source.Examined{SourceID: "s"}, nil
}

func (r *replay) Run(ctx context.Context, _ source.Start, emit source.Emit) error {
	const perBatch, perTxn = 500, 10
	r.last = source.Resume(fmt.Sprint(r.n))
	groups := make([]string, r.groups)
	for i := range groups {
		groups[i] = fmt.Sprintf("order:%d", i)
	}
	now := time.Now()
	for at := 0; at < r.n; {
		n := min(perBatch, r.n-at)
		slab := make([]outbox.Message, n)
		chunk := make([]byte, n*236)
		b := &source.Batch{Messages: make([]*outbox.Message, n)}
		for i := range slab {
			m := &slab[i]
			raw := chunk[i*236 : (i+1)*236]
			m.ID, m.Payload, m.Key = "0b7c1f3e-0000-0000-0000-000000000000", raw[36:], raw[:10]
			m.Type, m.Topic, m.Table = "OrderPlaced", "order", "public.outbox"
			m.Group = groups[(at+i)%len(groups)]
			m.CommitTime = now
			m.Position = outbox.Position{Log: 1, Commit: uint64((at + i) / perTxn), N: uint32((at + i) % perTxn)}
			b.Messages[i] = m
			if (i+1)%perTxn == 0 {
				b.Marks = append(b.Marks, source.Mark{N: i + 1, Resume: source.Resume(fmt.Sprint(at + i + 1))})
			}
		}
		at += n
		if at == r.n {
			b.Resume = r.last
		}
		if err := emit(ctx, b); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (r *replay) Confirm(at source.Resume) {
	if at == r.last {
		close(r.done)
	}
}

// accepting is a store that says yes.
type accepting struct{ checkpoint.Store }

func (accepting) Load(context.Context) (*checkpoint.Loaded, error) {
	return &checkpoint.Loaded{Checkpoint: &checkpoint.Checkpoint{SourceID: "s", Resume: "0", Log: 1}}, nil
}

func (accepting) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	return &checkpoint.Settled{Saved: s.Checkpoint(nil) != nil}, nil
}

func (accepting) Save(context.Context, *checkpoint.Checkpoint) error     { return nil }
func (accepting) Requests(context.Context) ([]checkpoint.Request, error) { return nil, nil }
func (accepting) Ping(context.Context) (time.Time, error)                { return time.Time{}, nil }
func (accepting) Close(context.Context) error                            { return nil }
func (accepting) Due(context.Context, *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	return nil, 0, nil
}

type dropping struct{}

func (dropping) Deliver(context.Context, []*sink.Delivery) []error { return nil }
func (dropping) Limits() sink.Limits                               { return sink.Limits{Run: 1 << 20, Concurrency: 4} }
func (dropping) Close(context.Context) error                       { return nil }

// BenchmarkEngine is the engine's own cost a message: routing, lanes, tracker, settling.
func BenchmarkEngine(b *testing.B) {
	for _, groups := range []int{1, 200, 100_000} {
		for _, kept := range []bool{true, false} {
			b.Run(fmt.Sprintf("groups=%d/keep=%v", groups, kept), func(b *testing.B) {
				r, err := router.New(router.Config{Sinks: []string{"discard"},
					Tables: []outbox.Table{{Schema: "public", Name: "outbox", Shape: "debezium"}}})
				if err != nil {
					b.Fatal(err)
				}
				src := &replay{n: b.N, groups: groups, done: make(chan struct{})}
				rel, err := relay.New(relay.Config{Source: src, Router: r, Sinks: map[string]sink.Sink{"discard": dropping{}},
					Kept: func(string) bool { return kept },
					Open: func(context.Context) (checkpoint.Store, error) { return accepting{}, nil }})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				ctx, cancel := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- rel.Run(ctx) }()
				<-src.done
				b.StopTimer()
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
