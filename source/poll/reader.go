package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

const (
	// Idle is how long a reader that finds nothing waits before it looks again: one statement is all that a look at an idle table
	// costs. It waits less while rows come.
	Idle = 1200 * time.Millisecond
	// busy is the first wait, which doubles while nothing comes; heldMost is the longest while rows wait behind a gap.
	busy     = 5 * time.Millisecond
	heldMost = 200 * time.Millisecond
	// numbersMost numbers are listed at a time.
	numbersMost = 5000
	// batchBytes of payload and the like, and batchMessages, are a batch.
	batchBytes    = 256 << 10
	batchMessages = 1000
	// warnAfter is how long a gap holds rows up before it is told who holds it, and warnEvery how often that is told again.
	warnAfter = 5 * time.Second
	warnEvery = time.Minute
)

// A Table is what a kind knows about one outbox table. Each method asks the server anew and sees all that was committed before
// it was called. One goroutine uses it.
type Table interface {
	// Numbers lists the numbers of rows above one, ascending, at most limit, whether the rows are pending or not.
	Numbers(ctx context.Context, after uint64, limit int) (*Numbers, error)
	// Holders lists every transaction that may have drawn a number which cannot be seen yet. It is not asked again before
	// wait is over. If the server cannot tell now, known is false.
	Holders(ctx context.Context) (list []Holder, known bool, wait time.Duration, err error)
	// Rows shows pending rows above after and up to last, ascending, at most limit, until show returns false or an error.
	Rows(ctx context.Context, after, last uint64, limit int, show func(Row) (bool, error)) error
}

// Numbers is an answer of Table.
type Numbers struct {
	List []uint64
	// More: there may be numbers above the last one of List.
	More bool
	// Drawn is a number up to which all were drawn before the answer; 0 if the list is all that is known.
	Drawn uint64
	// Series names the series that all these numbers belong to: it is another one where numbers begin anew, and may be where nothing of
	// the kind has happened. "" if the server does not tell. No row of another series is seen together with this name.
	Series string
}

// A Row is one row of the answer that is being read.
type Row struct {
	Number uint64
	// Series is that of Numbers, at the time of this answer.
	Series string
	// Read makes its message, without a position; it is valid while the row is shown.
	Read func() (*outbox.Message, error)
	// CommitTime is when the row was committed or, where the server does not know, when it was read.
	CommitTime time.Time
}

// A Reader is one Run of a source that polls.
type Reader struct {
	Table    Table
	Barriers *Barriers
	Logger   *slog.Logger

	start   source.Start
	emit    source.Emit
	horizon *Horizon
	resume  uint64 // the last that was emitted
	series  string // which the place belongs to; "" while it is not known
	limit   int    // of Rows
	refused error  // by emit or SafeMode
	// askAfter is when Holders can be asked again.
	askAfter          time.Time
	heldSince, warnAt time.Time
	held, waiting     bool
	begun             bool // that reading has begun was told
}

// ParseResume reads a Resume: a number, and the series that it belongs to, "" if none was noted.
func ParseResume(r source.Resume) (n uint64, series string, err error) {
	number, series, noted := strings.Cut(string(r), " ")
	if n, err = strconv.ParseUint(number, 10, 64); err != nil || noted == (series == "") {
		return 0, "", fmt.Errorf("resume %q is not a number of the sequence column", string(r))
	}
	return n, series, nil
}

// FormatResume is the text of a number, and of its series where the server tells it.
func FormatResume(n uint64, series string) source.Resume {
	text := strconv.FormatUint(n, 10)
	if series != "" {
		text += " " + series
	}
	return source.Resume(text)
}

// Anew tells why a place among numbers of one series means nothing among those of another; "" if it does, or where that is not known.
func Anew(at uint64, series, now string) string {
	if series == "" || now == "" || series == now {
		return ""
	}
	return fmt.Sprintf("the checkpoint is at %d, but the numbers began anew since, or their sequence was altered", at)
}

// Run emits what the table holds from start.From on, until ctx ends (nil is returned then) or reading fails.
func (r *Reader) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	at, series, err := ParseResume(start.From)
	if err != nil {
		return err
	}
	r.series = series
	r.start, r.emit, r.horizon, r.resume, r.limit, r.begun = start, emit, NewHorizon(at), at, batchMessages/10, false
	defer r.Barriers.Forget()
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := busy
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.Barriers.woken():
		}
		wait, progress, err := r.turn(ctx)
		switch {
		case r.refused != nil && ctx.Err() == nil:
			return r.refused
		case source.Ended(ctx):
			return nil // whatever the end of the context broke
		case err != nil:
			return err
		}
		if progress {
			idle = busy
		}
		if wait < 0 { // nothing waits: look again, less and less often
			wait = idle
			idle = min(2*idle, Idle)
		}
		timer.Reset(wait)
	}
}

// turn looks once, and says how long to wait until the next look; below 0 when nothing waits.
func (r *Reader) turn(ctx context.Context) (wait time.Duration, progress bool, err error) {
	h := r.horizon
	before := h.At()
	if r.held || r.waiting {
		if err := r.observe(ctx); err != nil {
			return 0, false, err
		}
	}
	found, err := r.Table.Numbers(ctx, before, numbersMost)
	if err == nil {
		err = r.sameSeries(found.Series)
	}
	if err != nil {
		return 0, false, err
	}
	if !r.begun {
		r.begun = true
		r.start.Begun()
	}
	h.Drawn(found.Drawn)
	if n := len(found.List); n > 0 {
		h.Drawn(found.List[n-1])
	}
	barrier := r.Barriers.Highest()
	h.Drawn(barrier)
	to := h.Pass(found.List, found.More)
	if to > before {
		if err := r.deliver(ctx, before, to, found.List); err != nil {
			return 0, false, err
		}
	}
	if err := r.passBarriers(ctx); err != nil {
		return 0, false, err
	}
	looked := r.held || r.waiting
	r.held, r.waiting = h.Held(), barrier > to
	r.tell(to > before)
	switch {
	case to > before && found.More:
		return 0, true, nil
	case !r.held && !r.waiting:
		return -1, to > before, nil
	case !looked: // who holds the gap is not known yet
		return 0, true, nil
	case to > before:
		return max(busy, min(time.Until(r.askAfter), heldMost)), true, nil
	}
	held := busy
	if !r.heldSince.IsZero() { // a tenth of the time that it has lasted
		held = min(max(busy, time.Since(r.heldSince)/10), heldMost)
	}
	return max(held, min(time.Until(r.askAfter), heldMost)), false, nil
}

// sameSeries ends reading where numbers began anew: what is above the last one may be behind what is below it.
func (r *Reader) sameSeries(now string) error {
	if why := Anew(r.horizon.At(), r.series, now); why != "" {
		return fmt.Errorf("%s: %w", why, source.ErrGap)
	}
	if r.series == "" {
		r.series = now
	}
	return nil
}

// observe asks who may hold numbers.
func (r *Reader) observe(ctx context.Context) error {
	if time.Now().Before(r.askAfter) {
		return nil
	}
	list, known, wait, err := r.Table.Holders(ctx)
	if err != nil {
		return err
	}
	r.askAfter = time.Now().Add(wait)
	if known {
		r.horizon.Observe(list)
	}
	return nil
}

// tell logs who holds rows up for long.
func (r *Reader) tell(progress bool) {
	switch now := time.Now(); {
	case !r.held || progress:
		r.heldSince, r.warnAt = time.Time{}, time.Time{}
	case r.heldSince.IsZero():
		r.heldSince, r.warnAt = now, now.Add(warnAfter)
	case now.After(r.warnAt):
		r.warnAt = now.Add(warnEvery)
		r.Logger.Warn("rows wait for a number below them, which a transaction that has not ended may still commit",
			"after", r.horizon.At(), "since", now.Sub(r.heldSince).Round(time.Second).String(), "transaction", r.horizon.Culprit())
	}
}

// deliver emits the pending rows above after and up to last.
func (r *Reader) deliver(ctx context.Context, after, last uint64, listed []uint64) error {
	if len(listed) == 0 || listed[0] > last { // numbers that will never appear
		return r.send(ctx, &source.Batch{Resume: FormatResume(last, r.series)}, last)
	}
	for after < last {
		b, end, err := r.batch(ctx, after, last)
		if err != nil {
			return err
		}
		after = end
		if len(b.Messages) == 0 && end == r.resume {
			continue
		}
		b.Resume = FormatResume(end, r.series)
		if err := r.send(ctx, b, end); err != nil {
			return err
		}
	}
	return nil
}

var errRefused = errors.New("the relay is stopping")

func (r *Reader) send(ctx context.Context, b *source.Batch, at uint64) error {
	r.resume = at
	if r.refused = r.emit(ctx, b); r.refused != nil {
		return errRefused
	}
	return nil
}

// batch reads rows into a batch, and tells up to where it goes. Nothing is emitted while the server's answer is open: that may
// last, and would hold up the server's cleaning.
func (r *Reader) batch(ctx context.Context, after, last uint64) (*source.Batch, uint64, error) {
	limit := r.limit
	if r.start.SafeMode != nil {
		limit = 1
	}
	b := &source.Batch{}
	end, bytes, shown, full := after, 0, 0, false
	err := r.Table.Rows(ctx, after, last, limit, func(row Row) (bool, error) {
		if shown++; shown == 1 {
			if err := r.sameSeries(row.Series); err != nil {
				return false, err
			}
		}
		if row.Number <= end {
			return true, nil // the same number twice: the comparison with the table finds it
		}
		p := outbox.Position{Log: r.start.Log, Commit: row.Number}
		if r.start.SafeMode != nil {
			if r.refused = r.start.SafeMode(ctx, p); r.refused != nil {
				return false, errRefused
			}
		}
		m, err := row.Read()
		if err != nil {
			return false, err
		}
		m.Position, m.CommitTime, m.Txn = p, row.CommitTime, 0
		if m.ID == "" {
			m.ID = outbox.StandInID("seq-" + strconv.FormatUint(row.Number, 10))
		}
		size := m.Bytes()
		if full = bytes > 0 && bytes+size > batchBytes; full {
			return false, nil // it comes with the next ones
		}
		b.Messages = append(b.Messages, m)
		bytes += size
		end = row.Number
		full = bytes >= batchBytes
		return !full, nil
	})
	if err != nil {
		return nil, 0, err
	}
	// What was asked for and not taken is sent for nothing: a batch's worth is asked for.
	switch {
	case full && shown < limit:
		r.limit = max(1, shown)
	case shown == limit && bytes < batchBytes/2:
		r.limit = min(2*r.limit, batchMessages)
	}
	if !full && shown < limit {
		end = last
	}
	return b, end, nil
}

// passBarriers emits the barriers that were reached.
func (r *Reader) passBarriers(ctx context.Context) error {
	return r.Barriers.Pass(r.horizon.At(), func(text string) error {
		if r.refused = r.emit(ctx, &source.Batch{Barrier: text}); r.refused != nil {
			return errRefused
		}
		return nil
	})
}

// WaitFor returns when every transaction that may have drawn a number up to n has ended: what is read from then on shows all that
// will ever be of them.
func WaitFor(ctx context.Context, t Table, n uint64, log *slog.Logger) error {
	h := NewHorizon(0)
	h.Drawn(n)
	began, warn := time.Now(), warnAfter
	for {
		list, known, wait, err := t.Holders(ctx)
		if err != nil {
			return err
		}
		if known {
			h.Observe(list)
		}
		if h.Pass(nil, false) >= n {
			return nil
		}
		if since := time.Since(began); since > warn {
			warn += warnEvery
			log.Warn("waiting for transactions that may have drawn numbers of the sequence column", "since", since.Round(time.Second).String(),
				"transaction", h.Culprit())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(wait, busy, min(time.Since(began)/10, heldMost))):
		}
	}
}
