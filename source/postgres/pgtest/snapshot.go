package pgtest

import (
	"context"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
)

// Snapshot establishes a position and judges it.
func (r *Rig) Snapshot(first, acceptGap bool) (source.Snapshot, bool, error) {
	r.T.Helper()
	snap, err := r.Src.Establish(context.Background())
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = snap.Close(context.Background()) })
	sweep, err := snap.Judge(context.Background(), source.Known{First: first, AcceptGap: acceptGap})
	return snap, sweep, err
}

// Pending reads a snapshot to its end.
func (r *Rig) Pending(snap source.Snapshot) (ms []*outbox.Message, parkedAt [][]string) {
	r.T.Helper()
	err := snap.Pending(context.Background(), 5, func(_ context.Context, b *source.Batch) error {
		if b.Resume != "" || len(b.Messages) == 0 || len(b.Messages) > batches.MaxMessages || b.ParkedAt != nil && len(b.ParkedAt) != len(b.Messages) {
			r.T.Errorf("batch of %d messages, %d parked, resume %q", len(b.Messages), len(b.ParkedAt), b.Resume)
		}
		for i, m := range b.Messages {
			if m.Position != (outbox.Position{Log: 5, N: uint32(len(ms))}) || m.Txn != 0 || m.CommitTime.IsZero() {
				r.T.Errorf("position %s, txn %d", m.Position, m.Txn)
			}
			ms = append(ms, m)
			var at []string
			if b.ParkedAt != nil {
				at = b.ParkedAt[i]
			}
			parkedAt = append(parkedAt, at)
		}
		return nil
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return ms, parkedAt
}
