package relational

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/checkpoint"
)

// A script is a database whose attempts end as they are written down; what is not written down succeeds.
type script struct {
	Database
	troubles []Trouble
	did      []string
	unfed    []bool // of each attempt
	skipped  []bool
	broken   string // the call that fails
}

var errScript = errors.New("as scripted")

func (s *script) note(what string) error {
	s.did = append(s.did, what)
	if what == s.broken {
		return fmt.Errorf("%s: broken", what)
	}
	return nil
}

func (s *script) Settler(context.Context) (Settler, error) { return s, nil }

func (s *script) Attempt(_ context.Context, a *Attempt) error {
	s.unfed, s.skipped = append(s.unfed, a.Unfed != nil), append(s.skipped, a.SkipLocked)
	if len(s.troubles) == 0 {
		return s.note("commit")
	}
	return errScript
}

func (s *script) Rollback(context.Context) error { return s.note("rollback") }

// Trouble keeps to what a database does: feedback that is left out is not to blame.
func (s *script) Trouble(a *Attempt, _ error) Trouble {
	t := s.troubles[0]
	s.troubles = s.troubles[1:]
	t.Feedback = t.Feedback && a.Unfed == nil
	return t
}

func (s *script) FindRows(context.Context, error) error      { return s.note("find rows") }
func (s *script) Replan(context.Context) error               { return s.note("replan") }
func (s *script) FindLocked(context.Context, *Attempt) error { return s.note("find locked") }
func (s *script) Fault(doing string, err error) error        { return fmt.Errorf("%s: %w", doing, err) }
func (s *script) settle(t *testing.T, c *Core) (*Attempt, error) {
	c.db = s
	return c.settle(t.Context(), &checkpoint.Settlement{}, nil, nil)
}

// count is how often something was done.
func (s *script) count(what string) (n int) {
	for _, d := range s.did {
		if d == what {
			n++
		}
	}
	return n
}

func TestSettleSteps(t *testing.T) {
	t.Parallel()
	passing, lockWait := Trouble{Passing: true}, Trouble{Passing: true, LockWait: true}
	for _, c := range []struct {
		name     string
		troubles []Trouble
		did      string // without rollbacks
		err      bool
		unfed    bool // the last attempt
		skip     bool // the last attempt
	}{
		{name: "nothing", did: "commit"},
		{name: "refused", troubles: []Trouble{{}}, err: true},
		{name: "rows", troubles: []Trouble{{Rows: true}}, did: "find rows,commit"},
		{name: "stale", troubles: []Trouble{{Stale: true}}, did: "replan,commit"},
		{name: "stale again", troubles: []Trouble{{Stale: true}, {Stale: true}}, did: "replan", err: true},
		{name: "feedback", troubles: []Trouble{{Feedback: true}}, did: "commit", unfed: true},
		{name: "refused without feedback", troubles: []Trouble{{Feedback: true}, {Feedback: true}}, err: true, unfed: true},
		{name: "stale before feedback", troubles: []Trouble{{Stale: true, Feedback: true}, {Stale: true, Feedback: true}}, did: "replan,commit", unfed: true},
		{name: "no table", troubles: []Trouble{{NoTable: true}}, did: "commit", skip: true},
		{name: "others", troubles: []Trouble{passing}, did: "commit", skip: true},
		{name: "locked", troubles: []Trouble{lockWait, lockWait}, did: "find locked,find locked,commit", skip: true},
		{name: "one too many", troubles: slices.Repeat([]Trouble{passing}, settleTries), err: true, skip: true},
		{name: "others after a cause", troubles: slices.Concat([]Trouble{{Rows: true}, {Stale: true}, {Feedback: true}},
			slices.Repeat([]Trouble{passing}, settleTries-1)), did: "find rows,replan,commit", unfed: true, skip: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{troubles: c.troubles}
				_, err := s.settle(t, &Core{})
				if c.err != (err != nil) || c.err && !errors.Is(err, errScript) {
					t.Errorf("settle: %v, want an error: %v", err, c.err)
				}
				did := strings.Join(slices.DeleteFunc(slices.Clone(s.did), func(what string) bool { return what == "rollback" }), ",")
				if did != c.did {
					t.Errorf("did %q, want %q", did, c.did)
				}
				if last := len(s.unfed) - 1; s.unfed[last] != c.unfed || s.skipped[last] != c.skip {
					t.Errorf("the last attempt: without feedback %v, want %v; skips locked rows %v, want %v", s.unfed[last], c.unfed, s.skipped[last], c.skip)
				}
			})
		})
	}
}

// Whatever errors come in whatever order, a settlement ends, after a number of attempts that is bounded.
func TestSettleEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		coin := func() bool { return random.IntN(3) == 0 }
		for range 20000 {
			const rows = 5
			s := &script{}
			missing := rows // each row is found out about once
			for range 40 {
				trouble := Trouble{Stale: coin(), Feedback: coin(), NoTable: coin(), Passing: coin()}
				trouble.LockWait = trouble.Passing && coin()
				if missing > 0 && coin() {
					missing--
					trouble = Trouble{Rows: true}
				}
				s.troubles = append(s.troubles, trouble)
			}
			s.troubles = s.troubles[random.IntN(len(s.troubles)):]
			given := slices.Clone(s.troubles)
			_, err := s.settle(t, &Core{})
			attempts := len(s.unfed)
			switch {
			case attempts > settleTries+rows+2: // replanned, and without feedback
				t.Fatalf("%d attempts for %+v", attempts, given)
			case s.count("replan") > 1:
				t.Fatalf("replanned %d times for %+v", s.count("replan"), given)
			case (err == nil) != (s.count("commit") == 1), err != nil && !errors.Is(err, errScript):
				t.Fatalf("settle: %v, did %v for %+v", err, s.did, given)
			case s.count("rollback")+s.count("commit") != attempts:
				t.Fatalf("%d attempts, did %v for %+v", attempts, s.did, given)
			case !slices.IsSortedFunc(s.unfed, order), !slices.IsSortedFunc(s.skipped, order):
				t.Fatalf("feedback came back, or locked rows were waited for again, for %+v", given)
			}
		}
	})
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// What is done about an error can fail as well, and then the settlement does.
func TestSettleBreaks(t *testing.T) {
	t.Parallel()
	for broken, trouble := range map[string]Trouble{"rollback": {Passing: true}, "find rows": {Rows: true}, "replan": {Stale: true},
		"find locked": {Passing: true, LockWait: true}} {
		s := &script{troubles: []Trouble{trouble}, broken: broken}
		if _, err := s.settle(t, &Core{}); err == nil || !strings.Contains(err.Error(), broken+": broken") || s.count("commit") > 0 {
			t.Errorf("%s: %v, did %v", broken, err, s.did)
		}
	}
}

// Later settlements pass over locked rows until one meets none.
func TestSettleRemembersLocks(t *testing.T) {
	t.Parallel()
	c := &Core{}
	s := &script{troubles: []Trouble{{Passing: true}}}
	if _, err := s.settle(t, c); err != nil || c.SkipLocked {
		t.Errorf("settle: %v; passes over locked rows though none was met: %v", err, c.SkipLocked)
	}
	c.SkipLocked = true
	met := &meets{script{}}
	c.db = met
	if _, err := c.settle(t.Context(), &checkpoint.Settlement{}, nil, nil); err != nil || !c.SkipLocked {
		t.Errorf("settle: %v; passes over locked rows after some were met: %v", err, c.SkipLocked)
	}
}

// meets is a database whose attempts meet locked rows.
type meets struct{ script }

func (m *meets) Settler(context.Context) (Settler, error) { return m, nil }

func (m *meets) Attempt(_ context.Context, a *Attempt) error {
	a.MetLocked = true
	return nil
}
