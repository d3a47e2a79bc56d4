package feedback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

func told(n int, statements ...*source.Feedback) []Told {
	var ts []Told
	for i := range n {
		ts = append(ts, Told{Feedback: statements[i%len(statements)], Outcome: source.Outcome{RowID: fmt.Sprint(i),
			Message: &outbox.Message{Table: "t", Group: fmt.Sprint(i % 9), Position: outbox.Position{Commit: uint64(i)}}}})
	}
	return ts
}

// Statements that fail are found out and left out; all others are done, each once, in order within a group.
func TestFeedbackRun(t *testing.T) {
	t.Parallel()
	errBad, errLocked, errWrong := errors.New("bad"), errors.New("locked"), errors.New("wrong")
	one, two := &source.Feedback{Kind: "dead"}, &source.Feedback{Kind: "delivered"}
	for name, c := range map[string]struct {
		fails   func(t *Told, tries int) error
		atEnd   bool // it is only known that one of the chunk failed
		missing []string
		failed  int
	}{
		"none":           {fails: func(*Told, int) error { return nil }},
		"three":          {fails: only(errBad, "0", "99", "149"), missing: []string{"0", "99", "149"}, failed: 3},
		"three, unknown": {fails: only(errBad, "0", "99", "149"), atEnd: true, missing: []string{"0", "99", "149"}, failed: 3},
		"locked twice":   {fails: func(t *Told, tries int) error { return when(errLocked, t.Outcome.RowID == "7" && tries <= 2) }},
		"several locked": {fails: func(t *Told, tries int) error {
			return when(errLocked, tries <= 1 && slices.Contains([]string{"7", "16", "110", "149"}, t.Outcome.RowID))
		}},
		"locked for long": {fails: only(errLocked, "7"), missing: []string{"7"}, failed: 1},
		"wrong statement": {fails: func(t *Told, _ int) error { return when(errWrong, t.Feedback == one) }, failed: 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done []string
			counts := map[bool]int{}
			report := &Report{Counted: func(_, _ string, n int, why error) { counts[why == nil] += n }}
			tries := map[string]int{}
			run := Run{Report: report, Hopeless: func(why error) bool { return errors.Is(why, errWrong) },
				Passing: func(why error) bool { return errors.Is(why, errLocked) },
				Chunk: func(_ context.Context, chunk []Told) (int, error, error) {
					var ids []string
					for i := range chunk {
						tries[chunk[i].Outcome.RowID]++
						if why := c.fails(&chunk[i], tries[chunk[i].Outcome.RowID]); why != nil {
							if c.atEnd {
								i = -1
							}
							return i, why, nil
						}
						ids = append(ids, chunk[i].Outcome.RowID)
					}
					done = append(done, ids...)
					return 0, nil, nil
				}}
			if _, err := run.Tell(t.Context(), nil, having(told(150, one, two))); err != nil {
				t.Fatal(err)
			}
			report.Settled()
			if counts[true] != len(done) || counts[false] != c.failed || len(done)+c.failed != 150 {
				t.Errorf("%d done, %d of them counted, %d failed, want %d", len(done), counts[true], counts[false], c.failed)
			}
			last := map[int]int{}
			for _, id := range done {
				n, _ := strconv.Atoi(id)
				if before, has := last[n%9]; has && n < before {
					t.Errorf("statement %d of a group was done after %d", n, before)
				}
				last[n%9] = n
			}
			slices.Sort(done)
			if len(slices.Compact(done)) != len(done) {
				t.Error("a statement was done twice")
			}
			for _, id := range c.missing {
				if slices.Contains(done, id) {
					t.Errorf("%s was done", id)
				}
			}
		})
	}
	// A transaction that is over ends it, and nothing is counted; so does too much trouble, which is counted.
	gone := Run{Report: &Report{}, Chunk: func(context.Context, []Told) (int, error, error) { return 0, nil, errBad }}
	if _, err := gone.Tell(t.Context(), nil, having(told(3, one))); !errors.Is(err, errBad) {
		t.Errorf("a transaction that is over: got %v", err)
	}
	calls := 0
	all := Run{Report: &Report{}, Hopeless: func(error) bool { return false }, Passing: func(error) bool { return false },
		Chunk: func(context.Context, []Told) (int, error, error) { calls++; return 0, errBad, nil }}
	if _, err := all.Tell(t.Context(), nil, having(told(5000, one))); err != nil || calls > 20 {
		t.Errorf("statements that all fail: %d tries, %v", calls, err)
	}
}

func having(ts []Told) func() ([]Told, error) {
	return func() ([]Told, error) { return ts, nil }
}

func when(err error, is bool) error {
	if is {
		return err
	}
	return nil
}

func only(err error, ids ...string) func(*Told, int) error {
	return func(t *Told, _ int) error { return when(err, slices.Contains(ids, t.Outcome.RowID)) }
}

// What failed is written down and logged now and then, not for each settlement.
func TestFeedbackReport(t *testing.T) {
	t.Parallel()
	r := &Report{}
	ts := told(3, &source.Feedback{Kind: "dead"})
	r.Begin()
	r.Failed(ts, errors.New("no"))
	if f := r.Failures(); len(f) != 1 || f[0].Failed != 3 || f[0].Selection() != `{"outcome":"dead","table":"t"}` || f[0].Error != "no" {
		t.Errorf("failures: %+v", f)
	}
	r.Settled()
	r.Failed(ts, errors.New("no"))
	if f := r.Failures(); len(f) != 0 {
		t.Errorf("failures just after: %+v", f)
	}
	r.GiveUp(ts, errors.New("never"))
	r.Settled()
}

// Tell knows what a settlement settles; the kit tests that against real servers. Here: if nothing is told, Tell asks for nothing.
func TestTellNothing(t *testing.T) {
	t.Parallel()
	var none Statements
	ts, err := none.Tell(t.Context(), &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "t"}}}, nil, nil, nil, nil)
	if len(ts) != 0 || err != nil {
		t.Errorf("%d, %v", len(ts), err)
	}
	_, err = Compile([]*outbox.Table{{Schema: "s", Name: "t", Feedback: outbox.Feedback{"dead": "COMMIT"}}}, source.ParseFeedback)
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "feedback dead of table s.t must be one statement") {
		t.Errorf("a statement that ends the transaction: %v", err)
	}
}

// What there is to tell comes in the order of the messages, whatever became of each.
func TestFeedbackOrder(t *testing.T) {
	t.Parallel()
	fs := Statements{"t": {outbox.OutcomeDelivered: &source.Feedback{Kind: "delivered"}, outbox.OutcomeDead: &source.Feedback{Kind: "dead"}}}
	of := func(n uint64) *outbox.Message {
		return &outbox.Message{Table: "t", ID: fmt.Sprint(n), Group: "g", Position: outbox.Position{Commit: n}}
	}
	in := &checkpoint.Settlement{Park: []checkpoint.Parked{{Sink: "s", Message: of(3), State: checkpoint.StateDead}}}
	for _, n := range []uint64{1, 2, 4} {
		in.Rows = append(in.Rows, checkpoint.Row{Table: "t", ID: fmt.Sprint(n), Message: of(n)})
	}
	got, err := fs.Tell(t.Context(), in, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for i := range got {
		text += got[i].Outcome.RowID + got[i].Outcome.Kind + " "
	}
	if text != "1delivered 2delivered 3dead 4delivered " {
		t.Errorf("got %s", text)
	}
}
