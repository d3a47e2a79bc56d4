package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// parkedFrom is a store in which deliveries are parked.
type parkedFrom struct {
	accepting
	sinks  []string
	tables map[string]int
}

func (p parkedFrom) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	l, err := p.accepting.Load(ctx)
	l.ParkedSinks, l.ParkedTables = p.sinks, p.tables
	return l, err
}

// With deliveries parked that nothing of the configuration could deliver, the relay does not start, and says all that is missing at once.
func TestStartIsRefusedForWhatNobodyCanDeliver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store parkedFrom
		want  []string // none: it starts
	}{
		"all is known":           {parkedFrom{sinks: []string{"", "out"}, tables: map[string]int{"public.outbox": 3, "public.kept": 1}}, nil},
		"a store that tells not": {parkedFrom{}, nil},
		"a table": {parkedFrom{tables: map[string]int{"public.outbox": 3, "public.old": 2, "public.older": 1}},
			[]string{"public.old (deliveries: 2), public.older (deliveries: 1)", "source.tables", "tailbox dead drop --table NAME"}},
		"a prefix": {parkedFrom{tables: map[string]int{"pg_logical_emit_message.app": 2}},
			[]string{"pg_logical_emit_message.app (deliveries: 2)", "put source.messages: app back"}},
		"a sink and a table": {parkedFrom{sinks: []string{"gone"}, tables: map[string]int{"public.old": 2}}, []string{`sinks ["gone"]`, "public.old (deliveries: 2)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				src := &scripted{run: func(context.Context, source.Emit) error {
					cancel()
					<-ctx.Done()
					return ctx.Err()
				}}
				err := relayWith(t, src, dropping{}, c.store, 0).Run(ctx)
				if (err == nil) != (c.want == nil) || err != nil && !errors.Is(err, source.ErrStop) {
					t.Fatalf("run: %v", err)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("run: %v; want %q in it", err, want)
					}
				}
			})
		})
	}
}
