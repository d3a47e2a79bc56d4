package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
)

// Requests are the methods by which a store carries out requests (R13), outside of their transactions. A store has them in addition to
// checkpoint.Store.
type Requests interface {
	// Progress reads what a request did so far. Done: nothing is left to do, or the request is gone.
	Progress(ctx context.Context, id int64) (result *RequestResult, done bool, err error)
	// Select reads the next deliveries that a request selects, behind what it has done. It reads in the transaction that is
	// open, if one is.
	Select(ctx context.Context, r *checkpoint.Request, done *RequestResult) (*Chunk, error)
	// CloseRequest records the result of a request, and that it is done.
	CloseRequest(ctx context.Context, id int64, result *RequestResult) error
	// Transact runs do in one transaction, and runs it again if the transaction has to begin anew. Then it sets the times of the lanes that do has
	// touched (Attempt.Lanes), and settles the rows of the messages that do has added (AddMessage). It returns these lanes with their states.
	Transact(ctx context.Context, do func(context.Context, Effects) error) ([]checkpoint.Lane, []LaneState, error)
	// Held are the lanes that operators hold.
	Held() HeldLanes
	// Refusal returns the server's message if the server rejected the statement for its content, and would reject it again. It returns "" for all
	// other errors: a lost session, locks of others, a server in trouble.
	Refusal(err error) string
}

// Effects are the statements by which a request takes effect, inside its transaction. Lists of rows may be empty.
type Effects interface {
	// Record writes what a request did so far, and whether it is done.
	Record(ctx context.Context, id int64, result *RequestResult, done bool) error
	// InForce reads the holds and pauses in force. SaveForce writes what is left of one.
	InForce(ctx context.Context) (Forces, error)
	SaveForce(ctx context.Context, id int64, f *Force) error
	// Scope returns the open transaction, and the memory of its store.
	Scope() (*Attempt, *Memory)
	// AddMessage says that the request has touched what is parked of a message.
	AddMessage(key MessageKey)
	// Replay makes deliveries wait for their turn again, with no attempt spent; those that are lanes of their own are due.
	Replay(ctx context.Context, rows []SelectedRow) error
	// Drop sets deliveries to dropped. Skip sets retrying ones to dead. After either, none of them blocks its lane.
	Drop(ctx context.Context, rows []SelectedRow, why string) error
	Skip(ctx context.Context, rows []SelectedRow) error
	// Heads are the first blocking deliveries of lanes.
	Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*LaneHead, error)
	// ReadParked reads deliveries whole. ReadPending reads those rows of the users' tables that are pending.
	ReadParked(ctx context.Context, rows []SelectedRow) (map[ParkedKey]*checkpoint.Parked, error)
	ReadPending(ctx context.Context, rows []SelectedRow) (Present, error)
	// Rewrite replaces what deliveries carry, and nothing else of them.
	Rewrite(ctx context.Context, changed []Rewritten) error
	// RowWord is what the database calls a row, for operators.
	RowWord() string
	// Unsupported says why a delivery cannot be written as it is; "" if it can.
	Unsupported(p *checkpoint.Parked) string
}

// LanesOf is Lanes of checkpoint.Store: the lanes that the next Apply will change. A hold or resume that names no sink is about
// a group at every sink: its lane has the sink "".
func LanesOf(ctx context.Context, s Requests, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	if Validate(r) != nil || limit <= 0 {
		return nil, nil
	}
	lanes, err := lanesOf(ctx, s, r, limit)
	if err != nil && s.Refusal(err) != "" {
		return nil, nil // Apply is refused, too, and closes the request
	}
	return lanes, err
}

func lanesOf(ctx context.Context, s Requests, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	result, done, err := s.Progress(ctx, r.ID)
	if err != nil || done {
		return nil, err
	}
	var lanes []checkpoint.Lane
	seen := make(map[checkpoint.Lane]bool)
	add := func(lane checkpoint.Lane) (room bool) {
		if !seen[lane] {
			if len(lanes) == limit {
				return false
			}
			seen[lane] = true
			lanes = append(lanes, lane)
		}
		return true
	}
	switch {
	case ByGroups(r):
		for _, lane := range GroupLanes(r, result.Next, RequestChunk) {
			if !add(lane) {
				break
			}
		}
	case Selects(r.Verb):
		c, err := s.Select(ctx, r, result)
		if err != nil {
			return nil, err
		}
		for i := range c.Rows {
			if !add(c.Rows[i].Lane()) {
				break
			}
		}
	}
	return lanes, nil
}

// Apply is Apply of checkpoint.Store: the next part of a request, in one transaction with its progress. It goes through what is selected in order, up
// to the first delivery whose lane is not in lanes (not quiesced); the next call goes on there. If the server refuses a part, Apply rolls it back and
// closes the request: it would be refused for ever, and hold up what follows.
func Apply(ctx context.Context, s Requests, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	if err := Validate(r); err != nil {
		return &checkpoint.Applied{Done: true}, s.CloseRequest(ctx, r.ID, &RequestResult{Error: err.Error()})
	}
	out := &checkpoint.Applied{}
	touched, states, err := s.Transact(ctx, func(ctx context.Context, e Effects) error {
		*out = checkpoint.Applied{}
		result, done, err := s.Progress(ctx, r.ID)
		if err != nil || done {
			out.Done = done
			return err
		}
		p := &requestStep{Effects: e, requests: s, request: r, result: result, lanes: lanes}
		if err := p.apply(ctx); err != nil {
			return err
		}
		out.Changed, out.Done = p.changed, p.done
		if p.done {
			result.After, result.Next = nil, 0
		}
		return p.Record(ctx, r.ID, result, p.done)
	})
	if err != nil {
		if why := s.Refusal(err); why != "" {
			return refuse(ctx, s, r, why)
		}
		return nil, err
	}
	for i, lane := range touched {
		switch {
		case !slices.Contains(lanes, lane): // of the same group at another sink: the caller has not quiesced it
		case states[i].Blocked || s.Held().Has(lane):
			out.Blocked = append(out.Blocked, lane)
		default:
			out.Open = append(out.Open, lane)
		}
	}
	return out, nil
}

// refuse closes a request with what the server said.
func refuse(ctx context.Context, s Requests, r *checkpoint.Request, why string) (*checkpoint.Applied, error) {
	_, _, err := s.Transact(ctx, func(ctx context.Context, e Effects) error {
		result, done, err := s.Progress(ctx, r.ID)
		if err != nil || done {
			return err
		}
		before := "and nothing was changed"
		if result.Changed > 0 {
			before = fmt.Sprintf("after %d were changed", result.Changed)
		}
		result.After, result.Next = nil, 0
		result.Error = ErrorText(fmt.Sprintf("the database refuses it, %s: %s: correct that, and ask again", before, why))
		return e.Record(ctx, r.ID, result, true)
	})
	if err != nil {
		return nil, fmt.Errorf("close a request that the database refuses (%s): %w", why, err)
	}
	return &checkpoint.Applied{Done: true, Refused: why}, nil
}

// A requestStep is what one transaction does of a request.
type requestStep struct {
	Effects
	requests Requests
	request  *checkpoint.Request
	result   *RequestResult
	lanes    []checkpoint.Lane
	changed  int
	done     bool
}

func (p *requestStep) apply(ctx context.Context) error {
	switch {
	case p.request.Verb == checkpoint.VerbAcceptGap:
		// A start that finds a gap uses such a request up itself, when it saves the new position.
		p.result.Error, p.done = "there is no gap: nothing was accepted", true
		return nil
	case ByGroups(p.request):
		return p.groups(ctx)
	case !Selects(p.request.Verb):
		return p.sinks(ctx)
	}
	if why, err := p.ambiguous(ctx); err != nil || why != "" {
		p.result.Error, p.done = why, why != ""
		return err
	}
	c, err := p.requests.Select(ctx, p.request, p.result)
	if err != nil {
		return err
	}
	c.Within(p.lanes)
	switch p.request.Verb {
	case checkpoint.VerbReplay:
		err = p.replay(ctx, c.Rows)
	case checkpoint.VerbEdit:
		err = p.edit(ctx, c.Rows)
	case checkpoint.VerbDrop:
		err = p.drop(ctx, c.Rows)
	case checkpoint.VerbSkip:
		err = p.skip(ctx, c.Rows)
	}
	if err != nil {
		return err
	}
	p.result.Changed += p.changed
	if c.Last != nil {
		p.result.After = c.Last
	}
	p.done = c.End
	if p.done && p.result.Changed+p.result.Refused == 0 {
		p.result.Note = "nothing matched"
	}
	return nil
}

// touch counts deliveries, and adds their lanes to LaneOrder.Touched. If all other deliveries of the message are settled, touch adds the message, so
// that its row is dealt with; else the row stays as it is until they are.
func (p *requestStep) touch(rows []SelectedRow) {
	p.changed += len(rows)
	a, _ := p.Scope()
	for i := range rows {
		r := &rows[i]
		if !r.Alone {
			a.Lanes.Touched.Add(r.Lane())
		}
		if r.RowSettled {
			p.AddMessage(MessageKey{Table: r.Table, ID: r.ID})
		}
	}
}

// groups holds or resumes groups. A held lane's first delivery loses its time; a resumed one's is due at once.
func (p *requestStep) groups(ctx context.Context) error {
	all := GroupLanes(p.request, p.result.Next, RequestChunk+1)
	lanes := all
	for i, lane := range all {
		if i == RequestChunk || !slices.Contains(p.lanes, lane) {
			lanes = all[:i]
			break
		}
	}
	fs, err := p.InForce(ctx)
	if err != nil {
		return err
	}
	changed := len(lanes)
	if p.request.Verb == checkpoint.VerbHold {
		err = p.hold(ctx, fs, lanes)
	} else {
		changed = fs.Resumed(lanes, p.result)
		err = p.resume(ctx, fs, func(f *Force) bool { return f.Resume(lanes) })
	}
	if err != nil {
		return err
	}
	a, m := p.Scope()
	m.Holds = fs.Held()
	for _, lane := range lanes {
		a.Lanes.Touched.Add(lane)
	}
	a.Lanes.Touched.Spread(m.Sinks)
	p.changed += changed
	p.result.Changed += changed
	p.result.Next += len(lanes)
	if p.done = len(lanes) == len(all); p.done && p.result.Changed+p.result.Refused == 0 {
		p.result.Note = "nothing was held"
	}
	return nil
}

// hold adds lanes to what the request has in force.
func (p *requestStep) hold(ctx context.Context, fs Forces, lanes []checkpoint.Lane) error {
	f := fs[p.request.ID]
	if f == nil {
		f = &Force{}
		fs[p.request.ID] = f
	}
	f.Hold(lanes)
	return p.SaveForce(ctx, p.request.ID, f)
}

// resume calls take for each request's force, and saves those for which take returns true.
func (p *requestStep) resume(ctx context.Context, fs Forces, take func(*Force) bool) error {
	for id, f := range fs {
		if !take(f) {
			continue
		}
		if err := p.SaveForce(ctx, id, f); err != nil {
			return err
		}
	}
	return nil
}

// sinks pauses or resumes sinks.
func (p *requestStep) sinks(ctx context.Context) error {
	sinks := slices.Compact(slices.Sorted(slices.Values(p.request.Selection.Sinks)))
	p.changed, p.done = len(sinks), true
	p.result.Changed = len(sinks)
	if p.request.Verb == checkpoint.VerbPause {
		return p.SaveForce(ctx, p.request.ID, &Force{Sinks: sinks})
	}
	fs, err := p.InForce(ctx)
	if err != nil {
		return err
	}
	return p.resume(ctx, fs, func(f *Force) bool { return f.ResumeSinks(sinks) })
}
