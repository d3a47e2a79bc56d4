package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// Position is where a term begins.
type Position struct {
	Checkpoint checkpoint.Checkpoint
	// Snapshot is to be swept before the tail; nil when there is nothing to sweep. The caller closes it.
	Snapshot source.Snapshot
	// Gap is why the position before was lost; "" if it was not.
	Gap string
}

// Establish finds the place where reading goes on: the checkpoint, if the server's log can still be read from there,
// or else a new position, made durable before it is used (R8). loaded is what store.Load returned.
func Establish(ctx context.Context, src source.Source, store checkpoint.Store, loaded *checkpoint.Loaded,
	log *slog.Logger) (*Position, error) {
	return establish(ctx, src, store, loaded, termMemory{}, log)
}

// termMemory is what this process learned in earlier terms, and the database may no longer hold.
type termMemory struct {
	tried readFailure
	// saved is the last checkpoint that was durable; its Log is 0 if there was none.
	saved checkpoint.Checkpoint
}

// setBack reports whether the database says less than it had made durable: it was restored, or a failover lost the end of its log. Positions
// that were used are then used again for other messages.
func (r *termMemory) setBack(now *checkpoint.Checkpoint) bool {
	return now.Log < r.saved.Log || now.Log == r.saved.Log && now.LastCommit < r.saved.LastCommit
}

// nextLog returns the Log of a new position, which is higher than all before. last + 1 is not enough: the database may have been restored, and have
// forgotten higher ones. So Log is at least the database's clock in seconds since 1970.
func nextLog(ctx context.Context, store checkpoint.Store, last uint32) (uint32, error) {
	now, err := store.Ping(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	if now.IsZero() { // not known
		return last + 1, nil
	}
	return max(last+1, uint32(now.Unix())), nil
}

// readFailure records that the log cannot be read from the checkpoint with this Log, although Examine saw no problem. Only reading finds that out, for
// example if a Postgres publication was dropped and created again.
type readFailure struct {
	log uint32
	why string
}

func establish(ctx context.Context, src source.Source, store checkpoint.Store, loaded *checkpoint.Loaded, mem termMemory,
	log *slog.Logger) (*Position, error) {
	var old checkpoint.Checkpoint
	if loaded.Checkpoint != nil {
		old = *loaded.Checkpoint
	}
	found, err := src.Examine(ctx, old.SourceID, old.Resume)
	if err != nil {
		return nil, fmt.Errorf("examine the log: %w", err)
	}
	gap := found.Lost
	switch {
	case gap == "" && mem.tried.why != "" && mem.tried.log == old.Log:
		gap = mem.tried.why
	case gap == "" && loaded.AcceptGap:
		gap = "an operator gave up what follows the checkpoint"
	}
	switch {
	case loaded.Checkpoint == nil:
		log.Info("first start: establishing a position in the log")
	case gap != "":
		log.Warn("log position lost: establishing a new one", "why", gap)
		if at, err := goOnAhead(ctx, src, store, loaded, old, found, &mem, gap, log); err != nil || at != nil {
			return at, err
		}
	case old.SweepPending:
		log.Info("pending rows have not been swept to the end: sweeping them at a new position")
	case found.Moved || mem.setBack(&old):
		return renumber(ctx, store, old, found, &mem, log)
	default:
		if old.SourceID != found.SourceID { // the same server, started again
			old.SourceID = found.SourceID
			if err := store.Save(ctx, &old); err != nil {
				return nil, fmt.Errorf("save the server's name: %w", err)
			}
		}
		return &Position{Checkpoint: old}, nil
	}
	return renew(ctx, src, store, loaded, old, found.SourceID, gap, mem.saved.Log)
}

// goOnAhead judges pending rows before renew makes a new position, because a new position discards log that the server still holds. If an operator
// has to decide first, it returns an error and changes nothing. If no row has to be swept and only the log up to a place is lost, it returns the
// position behind the gap; otherwise nil.
func goOnAhead(ctx context.Context, src source.Source, store checkpoint.Store, loaded *checkpoint.Loaded, old checkpoint.Checkpoint,
	found *source.Examined, mem *termMemory, gap string, log *slog.Logger) (*Position, error) {
	judge, ok := src.(source.Judge)
	if !ok || found.Lost == "" { // If Examine sees no gap, an operator cannot be shown one, or decide about it: renew makes the new position first
		return nil, nil
	}
	known := knownOf(loaded, &old, gap)
	sweep, err := pinging(ctx, store, func(ctx context.Context) (bool, error) { return judge.Judge(ctx, known) })
	if err != nil {
		return nil, fmt.Errorf("judge pending rows: %w", err)
	}
	if sweep || known.First || found.Ahead == "" {
		return nil, nil
	}
	cp := checkpoint.Checkpoint{SourceID: found.SourceID, Resume: found.Ahead, LastCommit: max(old.LastCommit, 1)}
	if cp.Log, err = nextLog(ctx, store, max(old.Log, mem.saved.Log)); err != nil {
		return nil, err
	}
	cp.SettledAbove = shared(old.SettledAbove, found.Shared, cp.Log)
	if err := store.Save(ctx, &cp); err != nil {
		return nil, fmt.Errorf("save the new position: %w", err)
	}
	log.Info("the log goes on behind the gap", "from", string(cp.Resume), "log", cp.Log)
	return &Position{Checkpoint: cp, Gap: gap}, nil
}

// knownOf says what kind of start this is. source.start applies to the first start, and to later ones while nothing of the log was settled. It no
// longer applies if the position was lost after the first sweep had ended: rows committed since must be delivered.
func knownOf(loaded *checkpoint.Loaded, old *checkpoint.Checkpoint, gap string) source.Known {
	first := loaded.Checkpoint == nil || old.LastCommit == 0 && (gap == "" || old.SweepPending)
	return source.Known{First: first, Again: first && loaded.Checkpoint != nil, AcceptGap: loaded.AcceptGap}
}

// renumber goes on from the checkpoint with a new Log: ordinals behind it may have been given to other messages.
func renumber(ctx context.Context, store checkpoint.Store, old checkpoint.Checkpoint, found *source.Examined, mem *termMemory,
	log *slog.Logger) (*Position, error) {
	cp, part := old, found.Shared
	if !found.Moved {
		part = math.MaxUint64 // what the checkpoint names was in this log when it was saved
		log.Warn("the database was set back to an older state: the log goes on from its checkpoint")
	}
	var err error
	if cp.Log, err = nextLog(ctx, store, max(old.Log, mem.saved.Log)); err != nil {
		return nil, err
	}
	cp.SourceID = found.SourceID
	cp.SettledAbove = shared(old.SettledAbove, part, cp.Log)
	if err := store.Save(ctx, &cp); err != nil {
		return nil, fmt.Errorf("save the new log: %w", err)
	}
	log.Info("the log goes on at another server, or is counted in another way", "source_id", cp.SourceID, "log", cp.Log)
	return &Position{Checkpoint: cp}, nil
}

// shared returns the ranges of above that the new log still contains: those before part, where the old and the new log diverge. It renumbers them
// with the new Log.
func shared(above map[string][]checkpoint.Range, part uint64, log uint32) map[string][]checkpoint.Range {
	kept := map[string][]checkpoint.Range{}
	for name, rs := range above {
		for _, r := range rs {
			if r.First.Commit >= part {
				continue
			}
			if r.Last.Commit >= part {
				r.Last.Commit, r.Last.N = part-1, math.MaxUint32
			}
			r.First.Log, r.Last.Log = log, log
			kept[name] = append(kept[name], r)
		}
	}
	return kept
}

// pinging runs do, which may wait for long transactions or search a large table on another session. Meanwhile it pings the store's session, because
// the server ends a silent one (R12). If a ping fails, it cancels do, and returns do's result with the ping's error.
func pinging[T any](ctx context.Context, store checkpoint.Store, do func(context.Context) (T, error)) (out T, err error) {
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		out, err = do(doing)
		done <- err
	}()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return out, err
		case <-tick.C:
		}
		if _, err := store.Ping(ctx); err != nil {
			cancel()
			<-done
			return out, err
		}
	}
}

// discardPosition gives up a position at which nothing was read and of which nothing was saved.
func discardPosition(ctx context.Context, snapshot source.Snapshot) error {
	d, ok := snapshot.(source.Discarder)
	if !ok {
		return nil
	}
	discarding, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := d.Discard(discarding); err != nil {
		return fmt.Errorf("discard the position: %w", err)
	}
	return nil
}

// renew makes a new position and judges which rows have to be swept. Used is the highest Log that this process has given out.
func renew(ctx context.Context, src source.Source, store checkpoint.Store, loaded *checkpoint.Loaded,
	old checkpoint.Checkpoint, sourceID, gap string, used uint32) (*Position, error) {
	snapshot, err := pinging(ctx, store, func(ctx context.Context) (source.Snapshot, error) {
		return source.Begin(ctx, src, loaded.Checkpoint == nil)
	})
	if err != nil {
		if snapshot != nil {
			err = errors.Join(err, snapshot.Close(context.WithoutCancel(ctx)))
		}
		return nil, fmt.Errorf("establish a position in the log: %w", err)
	}
	known := knownOf(loaded, &old, gap)
	sweep, err := pinging(ctx, store, func(ctx context.Context) (bool, error) { return snapshot.Judge(ctx, known) })
	if err != nil {
		err = fmt.Errorf("judge pending rows: %w", err)
		if loaded.Checkpoint == nil { // no checkpoint names the position, and the server would keep its log for nobody
			err = errors.Join(err, discardPosition(ctx, snapshot))
		}
		return nil, errors.Join(err, snapshot.Close(ctx))
	}
	cp := checkpoint.Checkpoint{
		SourceID: sourceID, Resume: snapshot.Resume(), Log: max(old.Log, used) + 1, LastCommit: old.LastCommit, SweepPending: sweep,
	}
	if !known.First {
		cp.LastCommit = max(cp.LastCommit, 1) // with 0, a later start would count as the first
		if cp.Log, err = nextLog(ctx, store, cp.Log-1); err != nil {
			return nil, errors.Join(err, snapshot.Close(ctx))
		}
	}
	if err := store.Save(ctx, &cp); err != nil {
		return nil, errors.Join(fmt.Errorf("save the new position: %w", err), snapshot.Close(ctx))
	}
	p := &Position{Checkpoint: cp, Gap: gap}
	if !sweep {
		return p, snapshot.Close(ctx)
	}
	p.Snapshot = snapshot
	return p, nil
}
