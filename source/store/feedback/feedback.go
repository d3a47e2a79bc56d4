// Package feedback tells business rows what became of their messages: it decides which statements a settlement sends, isolates those that
// fail, and reports what failed.
package feedback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Statements are what the tables of a pipeline have to tell business rows, by the qualified name of the table. It is nil if
// none has anything to tell, and then costs nothing.
type Statements map[string]map[string]*source.Feedback

// Compile reads the statements of tables. The error matches source.ErrStop; the configuration refuses such statements
// before it comes to that.
func Compile(tables []*outbox.Table, parse func(kind, text string) (*source.Feedback, error)) (Statements, error) {
	var fs Statements
	for _, t := range tables {
		for kind, text := range t.Feedback {
			f, err := parse(kind, text)
			if err != nil {
				return nil, fmt.Errorf("%w: feedback %s of table %s %w", source.ErrStop, kind, t, err)
			}
			if fs == nil {
				fs = make(Statements)
			}
			if fs[t.String()] == nil {
				fs[t.String()] = make(map[string]*source.Feedback)
			}
			fs[t.String()][kind] = f
		}
	}
	return fs, nil
}

// A Told is a statement with the outcome that it is about.
type Told struct {
	*source.Feedback
	Outcome source.Outcome
	// Unchanged: the statement was carried out, and changed no row.
	Unchanged bool

	tries int // tries that failed because of locks of others
}

// ErrUnchanged counts statements that were carried out and changed no row: the business row is not there, or they name another one.
var ErrUnchanged = errors.New("the statement changed no row")

// Tell collects the feedback of a settlement: for deliveries that it parks, for failed attempts, and for messages that it delivers. Call it once the
// settlement has decided about rows. messages are those that have or had parked deliveries; superseded are deliveries that became dead because newer
// ones were parked. read reads parked deliveries that the settlement does not hold.
func (fs Statements) Tell(ctx context.Context, in *checkpoint.Settlement, messages []*store.Message, skipped map[int]bool, superseded []checkpoint.Key,
	read func(context.Context, []checkpoint.Key) ([]checkpoint.Parked, error),
) ([]Told, error) {
	if fs == nil {
		return nil, nil
	}
	t := &teller{fs: fs, unread: make(map[checkpoint.Key]string)}
	t.parks(in.Park)
	t.changes(in.Changes, messages)
	for i := range in.Rows {
		if r := &in.Rows[i]; !r.Parked && !skipped[i] && r.Message != nil {
			t.add(outbox.OutcomeDelivered, r.Table, source.Outcome{Message: r.Message, RowID: r.ID, Receipt: r.Receipt})
		}
	}
	t.messages(in, messages, skipped)
	for _, key := range superseded {
		if fs[key.Table][outbox.OutcomeDead] != nil {
			t.unread[key] = outbox.OutcomeDead
		}
	}
	if len(t.unread) == 0 {
		return t.inOrder(), nil
	}
	keys := make([]checkpoint.Key, 0, len(t.unread))
	for key := range t.unread {
		keys = append(keys, key)
	}
	found, err := read(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i := range found {
		t.parked(t.unread[found[i].Key()], &found[i])
	}
	return t.inOrder(), nil
}

// teller gathers what there is to tell.
type teller struct {
	fs   Statements
	told []Told
	// unread are deliveries whose message only the table of parked deliveries has, with the outcome to tell.
	unread map[checkpoint.Key]string
}

// inOrder sorts the statements by the positions of their messages, so that the last message decides what the business row shows.
func (t *teller) inOrder() []Told {
	slices.SortStableFunc(t.told, func(a, b Told) int { return a.Outcome.Message.Position.Compare(b.Outcome.Message.Position) })
	return t.told
}

func (t *teller) add(kind, table string, o source.Outcome) {
	if f := t.fs[table][kind]; f != nil {
		o.Kind = kind
		t.told = append(t.told, Told{Feedback: f, Outcome: o})
	}
}

// parked adds what there is to tell about a parked delivery.
func (t *teller) parked(kind string, p *checkpoint.Parked) {
	o := source.Outcome{Message: p.Message, RowID: p.RowID()}
	if kind != outbox.OutcomeDelivered {
		o.Sink, o.Attempt, o.Error, o.Class = p.Sink, p.Attempts, store.ErrorText(p.LastError), p.ErrorClass
	}
	t.add(kind, p.Message.Table, o)
}

// outcomeOf is what the state of a delivery is called; "" for one that is no outcome of an attempt.
func outcomeOf(state checkpoint.State) string {
	switch state {
	case checkpoint.StateRetrying:
		return outbox.OutcomeRetrying
	case checkpoint.StateDead:
		return outbox.OutcomeDead
	}
	return ""
}

func (t *teller) parks(parks []checkpoint.Parked) {
	for i := range parks {
		t.parked(outcomeOf(parks[i].State), &parks[i])
	}
}

// changes adds failed attempts, but for those of deliveries that are over: an operator dropped them meanwhile.
func (t *teller) changes(changes []checkpoint.Change, messages []*store.Message) {
	of := make(map[store.MessageKey]*store.Message, len(messages))
	for _, m := range messages {
		of[m.Key] = m
	}
	for _, c := range store.LastChanges(changes) {
		if c.Message == nil || c.Delivered {
			continue
		}
		at := func(v store.ParkedView) bool { return v.Sink == c.Key.Sink }
		if m := of[store.KeyOfMessage(c.Key)]; m != nil && !slices.ContainsFunc(m.Live, at) {
			continue
		}
		t.add(outcomeOf(c.State), c.Key.Table, source.Outcome{Message: c.Message, RowID: c.Key.ID, Sink: c.Key.Sink, Attempt: c.Attempts,
			Error: store.ErrorText(c.LastError), Class: c.ErrorClass})
	}
}

// messages adds those that are delivered: nothing of them is parked any more, and nobody gave a delivery of theirs up.
func (t *teller) messages(in *checkpoint.Settlement, messages []*store.Message, skipped map[int]bool) {
	for _, m := range messages {
		if t.fs[m.Key.Table][outbox.OutcomeDelivered] == nil || !m.DeliveredNow(skipped) {
			continue
		}
		o := source.Outcome{RowID: m.Key.ID, Receipt: m.Receipt}
		if m.Row >= 0 {
			o.Message = in.Rows[m.Row].Message
		}
		for i := range in.Changes {
			if c := &in.Changes[i]; o.Message == nil && c.Delivered && store.KeyOfMessage(c.Key) == m.Key {
				o.Message = c.Message
			}
		}
		switch {
		case o.Message != nil:
			t.add(outbox.OutcomeDelivered, m.Key.Table, o)
		case len(m.Over) > 0: // an earlier settlement delivered it, when its row was locked
			t.unread[checkpoint.Key{Sink: m.Over[0].Sink, Table: m.Key.Table, ID: m.Key.ID}] = outbox.OutcomeDelivered
		}
	}
}

const (
	// FeedbackChunk statements run under one savepoint.
	FeedbackChunk = 100
	// Time bounds the feedback of one settlement after a statement has failed: settling has to go on.
	Time = 3 * time.Second
	// feedbackFaults is how many statements of a settlement may fail. After that, the others are not tried.
	feedbackFaults = 10
	// feedbackTries is how often a statement that meets locks of others is tried.
	feedbackTries = 3
	// reportEvery is how often failures are logged and written down.
	reportEvery = 10 * time.Second
)

// A Run carries statements out under savepoints, so that those that fail leave no trace, and the others are done.
type Run struct {
	// Chunk runs statements under one savepoint. If one fails, Chunk rolls the savepoint back and returns the reason (why) and the statement's index
	// (failed; -1 if it is not known). If err is not nil, the whole transaction is over.
	Chunk func(ctx context.Context, chunk []Told) (failed int, why error, err error)
	// Hopeless reports whether a statement would fail for every message, Passing whether it failed because of others' locks.
	Hopeless, Passing func(why error) bool
	Report            *Report
}

var errFeedbackTime = fmt.Errorf("not tried: other feedback of the settlement took %v, or failed %d times", Time, feedbackFaults)

// Tell runs the statements from what(). If an earlier transaction of the settlement failed because of feedback, unfed is its error, and Tell only
// reports the statements as failed. tried reports whether any statement was run.
func (r *Run) Tell(ctx context.Context, unfed error, what func() ([]Told, error)) (tried bool, err error) {
	r.Report.Begin()
	told, err := what()
	if err != nil || len(told) == 0 {
		return false, err
	}
	if unfed != nil {
		r.Report.GiveUp(told, unfed)
		return false, nil
	}
	return true, r.do(ctx, told)
}

func (r *Run) do(ctx context.Context, all []Told) error {
	until, faults, trouble := time.Now().Add(Time), 0, false
	var queue [][]Told
	for chunk := range slices.Chunk(all, FeedbackChunk) {
		queue = append(queue, chunk)
	}
	for len(queue) > 0 {
		chunk := queue[0]
		queue = queue[1:]
		if faults >= feedbackFaults || trouble && time.Now().After(until) {
			r.Report.Failed(chunk, errFeedbackTime)
			continue
		}
		failed, why, err := r.Chunk(ctx, chunk)
		switch {
		case err != nil:
			return err
		case why == nil:
			r.Report.Done(chunk)
			continue
		case failed < 0 && len(chunk) > 1:
			queue = append([][]Told{chunk[:len(chunk)/2], chunk[len(chunk)/2:]}, queue...)
			continue
		}
		trouble = true
		failed = max(failed, 0)
		failing := chunk[failed]
		rest := slices.Delete(slices.Clone(chunk), failed, failed+1)
		if failing.tries++; r.Passing(why) && failing.tries < feedbackTries {
			queue = postpone(failing, rest, queue)
			continue
		}
		faults++
		hopeless := r.Hopeless(why)
		why = withoutValues(why, failing)
		r.Report.Failed([]Told{failing}, why)
		if hopeless {
			same := func(t Told) bool { return t.Feedback == failing.Feedback }
			for _, chunk := range append([][]Told{rest}, queue...) {
				for i := range chunk {
					if same(chunk[i]) {
						r.Report.Failed(chunk[i:i+1], why)
					}
				}
			}
			rest = slices.DeleteFunc(rest, same)
			for i := range queue {
				queue[i] = slices.DeleteFunc(slices.Clone(queue[i]), same)
			}
			queue = slices.DeleteFunc(queue, func(chunk []Told) bool { return len(chunk) == 0 })
		}
		if len(rest) > 0 {
			queue = append([][]Told{rest}, queue...)
		}
	}
	return nil
}

// postpone puts a statement that met a lock behind all others, together with later ones of its group, because the last of these must have the last
// word. rest is its chunk without it.
func postpone(failing Told, rest []Told, queue [][]Told) [][]Told {
	again := []Told{failing}
	group, at := failing.Outcome.Message.Group, failing.Outcome.Message.Position
	var others [][]Told
	for _, chunk := range append([][]Told{rest}, queue...) {
		var left []Told
		for _, t := range chunk {
			if m := t.Outcome.Message; group != "" && m.Group == group && m.Position.Compare(at) > 0 {
				again = append(again, t)
			} else {
				left = append(left, t)
			}
		}
		if len(left) > 0 {
			others = append(others, left)
		}
	}
	return append(others, slices.Collect(slices.Chunk(again, FeedbackChunk))...)
}

// A Report counts what became of feedback, and tells it once the settlement is durable.
type Report struct {
	// Counted, if not nil, is told of n statements about a table's outcome; why is nil for those that were done, and ErrUnchanged for
	// those that changed no row.
	Counted func(table, outcome string, n int, why error)
	Logger  *slog.Logger

	counts map[fedKey]*fed
	order  []fedKey
	logged map[fedKey]time.Time
	since  map[fedKey]int // failures since they were logged
	// missed are the statements that changed no row.
	missed map[fedKey]*missed
}

type fedKey struct{ table, outcome string }

// fed is what became of statements about one table's outcome in one attempt.
type fed struct {
	done, unchanged, failed int
	why                     error
	ids, unchangedIDs       []string
}

// missed counts statements that changed no row, since that was logged last.
type missed struct {
	n      int
	logged time.Time
}

func (r *Report) of(t *Told) *fed {
	key := fedKey{t.Outcome.Message.Table, t.Kind}
	f := r.counts[key]
	if f == nil {
		if r.counts == nil {
			r.counts = make(map[fedKey]*fed)
		}
		f = &fed{}
		r.counts[key] = f
		r.order = append(r.order, key)
	}
	return f
}

// Done notes statements that were carried out.
func (r *Report) Done(ts []Told) {
	for i := range ts {
		f := r.of(&ts[i])
		if !ts[i].Unchanged {
			f.done++
			continue
		}
		f.unchanged++
		if len(f.unchangedIDs) < store.IDsLogged && ts[i].Outcome.RowID != "" {
			f.unchangedIDs = append(f.unchangedIDs, outbox.Shorten(ts[i].Outcome.RowID))
		}
	}
}

// Failed notes statements that were not carried out, and why, without values of their messages.
func (r *Report) Failed(ts []Told, why error) {
	why = withoutValues(why, ts...)
	for i := range ts {
		f := r.of(&ts[i])
		f.failed++
		if f.why == nil || errors.Is(f.why, errFeedbackTime) {
			f.why = why
		}
		if len(f.ids) < store.IDsLogged {
			f.ids = append(f.ids, outbox.Shorten(ts[i].Outcome.RowID))
		}
	}
}

// GiveUp notes all statements as failed: the settlement failed with them before.
func (r *Report) GiveUp(all []Told, why error) {
	r.Begin()
	r.Failed(all, why)
}

// Begin forgets what was noted of an attempt that was rolled back.
func (r *Report) Begin() {
	clear(r.counts)
	r.order = r.order[:0]
}

// A Failure is what is written down about feedback that failed.
type Failure struct {
	Table   string `json:"table"`
	Outcome string `json:"outcome"`
	Failed  int    `json:"failed"` // since it was written down before
	Error   string `json:"error"`
	// AgeSeconds is how long ago it was written down. Only a report sets it.
	AgeSeconds float64 `json:"age_seconds"`
}

// Selection returns the column selection of the failure's row in tailbox_request, which has one row for each table and outcome.
func (f *Failure) Selection() string {
	b := store.AppendJSONText([]byte(`{"outcome":`), f.Outcome)
	b = store.AppendJSONText(append(b, `,"table":`...), f.Table)
	return string(append(b, '}'))
}

// Result returns the column result of that row.
func (f *Failure) Result() string { return fmt.Sprintf(`{"failed":%d}`, f.Failed) }

// Failures returns what is to be written down in the same transaction: for a table and outcome, once each reportEvery.
func (r *Report) Failures() []Failure {
	var out []Failure
	for _, key := range r.order {
		f := r.counts[key]
		if f.failed == 0 || time.Since(r.logged[key]) < reportEvery {
			continue
		}
		out = append(out, Failure{Table: key.table, Outcome: key.outcome, Failed: f.failed + r.since[key],
			Error: store.ErrorText(f.why.Error())})
	}
	return out
}

// Settled tells observers: the settlement is durable. On a nil report, that of a store without feedback, it does nothing.
func (r *Report) Settled() {
	if r == nil || len(r.order) == 0 {
		return
	}
	for _, key := range r.order {
		f := r.counts[key]
		if r.Counted != nil && f.done > 0 {
			r.Counted(key.table, key.outcome, f.done, nil)
		}
		r.miss(key, f)
		if f.failed == 0 {
			continue
		}
		if r.Counted != nil {
			r.Counted(key.table, key.outcome, f.failed, f.why)
		}
		if r.logged == nil {
			r.logged, r.since = make(map[fedKey]time.Time), make(map[fedKey]int)
		}
		r.since[key] += f.failed
		if time.Since(r.logged[key]) < reportEvery {
			continue
		}
		if r.Logger != nil {
			r.Logger.Warn("feedback failed: its messages are settled without it", "table", key.table, "outcome", key.outcome, "failed", r.since[key],
				"ids", strings.Join(f.ids, " "), "error", store.ErrorText(f.why.Error()))
		}
		r.logged[key], r.since[key] = time.Now(), 0
	}
	r.Begin()
}

// miss counts and logs statements that changed no row.
func (r *Report) miss(key fedKey, f *fed) {
	if f.unchanged == 0 {
		return
	}
	if r.Counted != nil {
		r.Counted(key.table, key.outcome, f.unchanged, ErrUnchanged)
	}
	if r.missed == nil {
		r.missed = make(map[fedKey]*missed)
	}
	m := r.missed[key]
	if m == nil {
		m = &missed{}
		r.missed[key] = m
	}
	m.n += f.unchanged
	if r.Logger == nil || time.Since(m.logged) < reportEvery {
		return
	}
	r.Logger.Info("feedback changed no row: look whether its statement finds the business row", "table", key.table, "outcome", key.outcome,
		"unchanged", m.n, "ids", strings.Join(f.unchangedIDs, " "))
	m.n, m.logged = 0, time.Now()
}
