package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A Reader is a store without the lock, on a session of its own: it looks, and writes requests.
type Reader interface {
	store.Requests
	// Remember reads what a store keeps a copy of in memory: holds, and sinks with parked deliveries.
	Remember(ctx context.Context) error
	// Ask writes a request, and returns its id. The database says when it was asked for, and who asks. If by is not "", it names the person who asks
	// instead: the caller vouches for that.
	Ask(ctx context.Context, r *checkpoint.Request, by string) (id int64, err error)
	// Listed reads deliveries, whole or without payloads, in the order of rows, and leaves out those that are gone.
	Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error)
	// WaitingLanes lists lanes with blocking deliveries, of the sink and groups of a selection, in order behind a lane, and the first delivery
	// of each. The zero lane is before all others. Limit 0 means all. Lanes that are freed meanwhile may be left out. next is the lane to go on behind;
	// nil at the end.
	WaitingLanes(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) (lanes []WaitingLane, firsts []store.SelectedRow, next *checkpoint.Lane, err error)
	// Newest looks at so many dead letters behind a place, nil for the first, in the order in which they died, the last one first. It needs no Remember.
	Newest(ctx context.Context, sel *checkpoint.Selection, during Span, after *DeadKey, look int) ([]DeadRow, error)
	// Summarize counts deliveries in some states, without their examples. It looks at MostCounted at most, of dead letters at the newest. It needs no
	// Remember.
	Summarize(ctx context.Context, states []checkpoint.State, by []Cause) (*Summary, error)
	// Asked lists requests with an id below before, the newest first, whether they are carried out or not. Unless whole is set, it leaves out
	// selections larger than store.MostSelection.
	Asked(ctx context.Context, before int64, limit int, whole bool) ([]store.Asked, error)
	// Begin is called before each question, and returns the context for it. It forgets what Remember read, and fails if the session is gone.
	Begin(ctx context.Context) (context.Context, error)
	// Leave ends the session.
	Leave(ctx context.Context) error
}

// An Operator is what operators see of a pipeline and ask for, beside the relay or without it. Each method connects by itself, unless KeepSessions
// says otherwise, and takes no lock but for Execute.
type Operator struct {
	// Read opens a reader.
	Read func(ctx context.Context) (Reader, error)
	// Open opens the store, and fails with checkpoint.ErrLocked if a relay runs.
	Open func(ctx context.Context) (checkpoint.Store, error)

	sessions *sessions // nil: each question has its own
}

// read calls look with a reader, on a session of its own or one that was kept.
func (o Operator) read(ctx context.Context, look func(context.Context, Reader) error) (err error) {
	r, in, err := o.begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && o.sessions.keep(r) {
			return
		}
		err = errors.Join(err, r.Leave(ctx))
	}()
	return look(in, r)
}

// begin returns a reader at the begin of a question.
func (o Operator) begin(ctx context.Context) (r Reader, in context.Context, err error) {
	for r := o.sessions.take(); r != nil; r = o.sessions.take() {
		if in, err := r.Begin(ctx); err == nil {
			return r, in, nil
		}
		_ = r.Leave(ctx) // it was lost meanwhile
	}
	if r, err = o.Read(ctx); err != nil {
		return nil, nil, err
	}
	if in, err = r.Begin(ctx); err != nil {
		return nil, nil, errors.Join(err, r.Leave(ctx))
	}
	return o.sessions.opened(r), in, nil
}

// Ask writes a request into tailbox_request, and returns its id. One that could never be carried out is refused. Who asks is the database's to say.
func (o Operator) Ask(ctx context.Context, r *checkpoint.Request) (id int64, err error) {
	return o.AskFor(ctx, r, "")
}

// AskFor is Ask in the name of somebody whom the caller knows, and the database does not.
func (o Operator) AskFor(ctx context.Context, r *checkpoint.Request, by string) (id int64, err error) {
	if err := store.Validate(r); err != nil {
		return 0, fmt.Errorf("ask for %s: %w", r.Verb, err)
	}
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		id, err = s.Ask(ctx, r, by)
		return err
	})
	return id, err
}

// Result reads what a request did so far, and whether it is done.
func (o Operator) Result(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error) {
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		result, done, err = s.Progress(ctx, id)
		return err
	})
	return result, done, err
}

// Execute carries out the open requests up to an id if no relay runs; else it fails with checkpoint.ErrLocked.
// Requests to accept a gap are left for the next start.
func (o Operator) Execute(ctx context.Context, upTo int64) (err error) {
	s, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return execute(ctx, s, upTo)
}

// Wait waits until a request is done: by the relay that runs or, if none does, by Execute. A request to accept a gap
// is left to the next start if no relay runs: the result is nil then.
func (o Operator) Wait(ctx context.Context, id int64) (*store.RequestResult, error) {
	return Wait(ctx, id, func(ctx context.Context) (*store.RequestResult, bool, error) { return o.Result(ctx, id) },
		func(ctx context.Context) error { return o.Execute(ctx, id) })
}

// execute carries out the open requests up to an id with a store that holds the lock.
func execute(ctx context.Context, s checkpoint.Store, upTo int64) error {
	for {
		requests, err := s.Requests(ctx)
		if err != nil {
			return err
		}
		progress := false
		for i := range requests {
			r := &requests[i]
			if r.ID > upTo || r.Verb == checkpoint.VerbAcceptGap {
				continue
			}
			progress = true
			if err := carryOut(ctx, s, r); err != nil {
				return fmt.Errorf("carry out request %d: %w", r.ID, err)
			}
		}
		if !progress {
			return nil
		}
	}
}

// carryOut does all parts of a request. With the lock held here no lane has a run in flight.
func carryOut(ctx context.Context, s checkpoint.Store, r *checkpoint.Request) error {
	for {
		lanes, err := s.Lanes(ctx, r, store.RequestChunk)
		if err != nil {
			return err
		}
		applied, err := s.Apply(ctx, r, lanes)
		if err != nil || applied.Done {
			return err
		}
	}
}

const waitPoll = 100 * time.Millisecond

// Wait waits until a request is done. If a relay runs, it carries the request out, and execute fails with checkpoint.ErrLocked. If none runs, execute
// carries it out; but a request to accept a gap is left to the next start, and the result is nil then.
func Wait(ctx context.Context, id int64, read func(context.Context) (result *store.RequestResult, done bool, err error),
	execute func(context.Context) error,
) (*store.RequestResult, error) {
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		result, done, err := read(ctx)
		if err != nil || done {
			return result, err
		}
		if turn%10 == 0 {
			switch err := execute(ctx); {
			case errors.Is(err, checkpoint.ErrLocked):
			case err != nil:
				return nil, err
			default:
				result, done, err := read(ctx)
				if err != nil || done {
					return result, err
				}
				return nil, nil // accept-gap
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for request %d: %w: the relay carries it out all the same, unless it is deleted from tailbox_request before",
				id, ctx.Err())
		case <-tick.C:
		}
	}
}

// gapTries bounds how often a checkpoint that moves meanwhile is looked at again.
const gapTries = 5

// ErrNoCheckpoint means that no position was ever taken.
var ErrNoCheckpoint = errors.New("there is no checkpoint yet, so nothing can be missing: run tailbox init")

// FindGap returns the gap behind the checkpoint. There is one if the next start cannot read the log on, or if its sweep has not ended; else FindGap
// returns nil. saved reads the checkpoint. FindGap changes nothing. It fails without a checkpoint, because there is nothing to accept.
func FindGap(ctx context.Context, saved func(context.Context) (*checkpoint.Checkpoint, error),
	examine func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error),
) (gap *Gap, err error) {
	c, err := saved(ctx)
	for range gapTries {
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, ErrNoCheckpoint
		}
		found, err := examine(ctx, c.SourceID, c.Resume)
		switch {
		case err != nil:
			return nil, fmt.Errorf("examine the log: %w", err)
		case found.Lost != "":
			gap = &Gap{From: c.Resume, Why: found.Lost}
		case c.SweepPending:
			gap = &Gap{From: c.Resume, Why: "pending rows have not been swept to the end", Unswept: true}
		default:
			return nil, nil
		}
		// A running relay moves the checkpoint, and then confirms the log up to it. A checkpoint that was read before it moved can therefore look lost, so
		// read it again.
		again, err := saved(ctx)
		if err != nil {
			return nil, err
		}
		if again != nil && again.Resume == c.Resume {
			return gap, nil
		}
		c = again
	}
	return nil, nil // a checkpoint that moves all the time has no gap behind it
}

// JudgeGap adds to a gap the tables whose rows do not show what was delivered. look returns the fix that a start after a lost position names; "" =
// none. JudgeGap skips missing tables, which Check reports.
func JudgeGap(gap *Gap, tables []outbox.Table, look func(*outbox.Table) (name, fix string, err error)) (*Gap, error) {
	if gap == nil || gap.Unswept {
		return gap, nil
	}
	for i := range tables {
		name, fix, err := look(&tables[i])
		switch {
		case errors.Is(err, source.ErrStop):
		case err != nil:
			return nil, err
		case fix != "":
			gap.Unjudged = append(gap.Unjudged, name)
		}
	}
	return gap, nil
}

// listBytes bounds the payloads of one list.
const listBytes = 64 << 20

// Parked lists deliveries without their payloads, and Whole with them. See List.
func (o Operator) Parked(ctx context.Context, sel checkpoint.Selection, limit int) (list []store.Listed, more bool, err error) {
	return o.List(ctx, sel, limit, false)
}

// Whole lists deliveries with their payloads, as many as fit into memory.
func (o Operator) Whole(ctx context.Context, sel checkpoint.Selection) (list []store.Listed, more bool, err error) {
	return o.List(ctx, sel, 0, true)
}

// List lists what a selection selects, at most limit deliveries, in the order in which a request would go through it: by sink, group and position.
// more reports whether some are left out. Limit 0 means the selection's own limit, or all. Whole messages are listed up to 64 MiB of payloads; else
// they come without their payloads.
func (o Operator) List(ctx context.Context, sel checkpoint.Selection, limit int, whole bool) (list []store.Listed, more bool, err error) {
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		if err := rememberFor(ctx, s, &sel); err != nil {
			return err
		}
		list, more, err = listParked(ctx, s, sel, limit, whole)
		return err
	})
	return list, more, err
}

// rememberFor has the reader remember what it selects by. Only groups are looked for at each sink with parked deliveries, and to find these costs
// MySQL a look at everything that is parked.
func rememberFor(ctx context.Context, s Reader, sel *checkpoint.Selection) error {
	if len(sel.Groups) == 0 {
		return nil
	}
	return s.Remember(ctx)
}

func listParked(ctx context.Context, s Reader, sel checkpoint.Selection, limit int, whole bool) (list []store.Listed, more bool, err error) {
	r := &checkpoint.Request{Verb: checkpoint.VerbReplay, Selection: sel}
	if limit > 0 && (sel.Limit == 0 || limit < sel.Limit) {
		r.Selection.Limit = limit + 1
	}
	progress := &store.RequestResult{}
	bytes := 0
	for {
		c, err := s.Select(ctx, r, progress)
		if err != nil {
			return nil, false, err
		}
		found, err := s.Listed(ctx, c.Rows, whole)
		if err != nil {
			return nil, false, err
		}
		for i := range found {
			if limit > 0 && len(list) == limit || bytes > listBytes {
				return list, true, nil
			}
			list, bytes = append(list, found[i]), bytes+len(found[i].Message.Payload)
		}
		progress.Changed, progress.After = len(list), c.Last
		if c.End {
			return list, false, nil
		}
	}
}

// Page lists deliveries behind a place, at most limit, without payloads. next is the place to go on from; nil at the end. A page may have fewer
// deliveries than limit, or none, although there is a next one: among very many, one call does not look at all of them.
func (o Operator) Page(ctx context.Context, sel checkpoint.Selection, after *store.ParkedKey, limit int) (list []store.Listed, next *store.ParkedKey, err error) {
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		if err := rememberFor(ctx, s, &sel); err != nil {
			return err
		}
		list, next, err = page(ctx, s, sel, after, limit)
		return err
	})
	return list, next, err
}

// sincePage is how many deliveries ParkedSince looks at in one session.
const sincePage = 5000

// ParkedSince lists deliveries that were parked at a moment or later, as Parked does.
func (o Operator) ParkedSince(ctx context.Context, sel checkpoint.Selection, since time.Time, limit int) (found []store.Listed, more bool, err error) {
	if since.IsZero() {
		return o.Parked(ctx, sel, limit)
	}
	var after *store.ParkedKey
	for {
		page, next, err := o.Page(ctx, sel, after, sincePage)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if page[i].ParkedAt.Before(since) {
				continue
			}
			if limit > 0 && len(found) == limit {
				return found, true, nil
			}
			found = append(found, page[i])
		}
		if next == nil {
			return found, false, nil
		}
		after = next
	}
}

// pageLooks bounds how many chunks of deliveries one page looks at.
const pageLooks = 20

func page(ctx context.Context, s Reader, sel checkpoint.Selection, after *store.ParkedKey, limit int) (list []store.Listed, next *store.ParkedKey, err error) {
	r := &checkpoint.Request{Verb: checkpoint.VerbReplay, Selection: sel}
	r.Selection.Limit = limit
	progress := &store.RequestResult{After: after}
	for range pageLooks {
		c, err := s.Select(ctx, r, progress)
		if err != nil {
			return nil, nil, err
		}
		found, err := s.Listed(ctx, c.Rows, false)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, found...)
		progress.Changed += len(c.Rows)
		if c.End {
			return list, nil, nil
		}
		if c.Last != nil {
			progress.After = c.Last
		}
		if progress.Changed >= limit {
			break
		}
	}
	return list, progress.After, nil
}

// Asked lists requests as Reader.Asked does. before 0 means all.
func (o Operator) Asked(ctx context.Context, before int64, limit int, whole bool) (list []store.Asked, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	err = o.read(ctx, func(ctx context.Context, s Reader) error {
		list, err = s.Asked(ctx, before, limit, whole)
		return err
	})
	return list, err
}
