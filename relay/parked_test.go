package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// What is parked from a table that the configuration does not have any more must not become a dead letter for that: the relay stops and
// says what is missing.
func TestParkedFromATableThatIsGone(t *testing.T) {
	t.Parallel()
	for table, want := range map[string][]string{
		"public.kept":                        nil, // it goes on
		"public.old":                         {"public.old", "source.tables", "tailbox dead drop --table NAME"},
		outbox.LogMessageTable("a").String(): {outbox.LogMessageTable("a").String(), "put source.messages: a back"},
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := waiting(0)
				p.Message.Table = table
				store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Sink: "out", Group: "g"}}}}
				store.due = func([]string) []checkpoint.Parked { return []checkpoint.Parked{p} }
				store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
					if len(in.Changes) > 0 {
						if !in.Changes[0].Delivered || want != nil {
							t.Errorf("changed: %+v", in.Changes[0])
						}
						cancel()
					}
					return saved(in)
				}
				err := relayWith(t, emitting(), dropping{}, store, 0).Run(ctx)
				if (err == nil) != (want == nil) || err != nil && !errors.Is(err, source.ErrStop) {
					t.Fatalf("run: %v", err)
				}
				for _, text := range want {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("run: %v; want %q in it", err, text)
					}
				}
			})
		})
	}
}
