package poll

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A world is a server as a Horizon sees it: transactions that draw numbers, and commit or not, in any order.
type world struct {
	rand *rand.Rand
	next uint64 // the last number that was drawn
	txns []*txn
	done int
	// visible are the numbers of committed rows, gone those that were deleted after they had passed.
	visible map[uint64]bool
	// late: transactions are not on the list while they draw their first number, but their session is.
	late bool
}

// A txn goes through: begun, drawing (a statement is at work), listed, maybe prepared.
type txn struct {
	id       int
	session  int
	drawn    []uint64
	drawing  bool // has drawn, and is not on the list of transactions yet
	nameless bool // is on the list under its session's name, and will get a number of its own
	prepared bool
}

func (w *world) draw(t *txn) {
	w.next++
	t.drawn = append(t.drawn, w.next)
}

// step lets something happen.
func (w *world) step() {
	if len(w.txns) == 0 || len(w.txns) < 6 && w.rand.IntN(4) == 0 {
		w.done++
		t := &txn{id: w.done, session: w.freeSession(), nameless: w.rand.IntN(2) == 0}
		w.txns = append(w.txns, t)
		if w.rand.IntN(3) > 0 {
			t.drawing = w.late
			w.draw(t)
		}
		return
	}
	i := w.rand.IntN(len(w.txns))
	t := w.txns[i]
	switch n := w.rand.IntN(8); {
	case t.drawing:
		t.drawing = false
	case n < 3 && !t.prepared:
		t.nameless = t.nameless && n > 0
		w.draw(t)
	case n == 3 && !t.prepared && len(t.drawn) > 0:
		t.prepared, t.session = true, 0
	case n == 4 && w.rand.IntN(4) > 0: // it stays open for long
	default:
		if w.rand.IntN(4) > 0 {
			for _, n := range t.drawn {
				w.visible[n] = true
			}
		}
		w.txns = slices.Delete(w.txns, i, i+1)
	}
}

func (w *world) freeSession() int {
	for s := 1; ; s++ {
		if !slices.ContainsFunc(w.txns, func(t *txn) bool { return t.session == s }) {
			return s
		}
	}
}

func (w *world) holders() []Holder {
	var list []Holder
	for _, t := range w.txns {
		session := fmt.Sprintf("session %d", t.session)
		open := fmt.Sprintf("open in %d since %d", t.session, t.id)
		switch {
		case t.prepared:
			list = append(list, Holder{ID: fmt.Sprintf("prepared %d", t.id), Detached: true})
		case t.drawing:
			list = append(list, Holder{ID: session})
		case t.nameless:
			list = append(list, Holder{ID: open, Before: []string{session}})
		default:
			list = append(list, Holder{ID: fmt.Sprint(t.id), Before: []string{session, open}})
		}
	}
	return list
}

func (w *world) numbers(after uint64, limit int) (list []uint64, more bool) {
	for n := range w.visible {
		if n > after {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	if len(list) > limit {
		return list[:limit], true
	}
	return list, len(list) == limit
}

// TestRandomSchedules: whatever the order in which transactions draw, commit, roll back and prepare, rows pass in the order
// of their numbers, none is left behind, and once all transactions have ended everything has passed.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		w := &world{rand: rand.New(rand.NewPCG(seed, 1)), visible: map[uint64]bool{}, late: seed%2 == 0}
		h := NewHorizon(0)
		passed := map[uint64]bool{}
		some := func(most int) {
			for range w.rand.IntN(most) {
				w.step()
			}
		}
		turn := func(between int) {
			if h.Held() || w.rand.IntN(3) == 0 {
				list := w.holders()
				h.Observe(list)
			}
			some(between)
			limit := 1 + w.rand.IntN(8)
			last := h.At()
			numbers, more := w.numbers(last, limit)
			if len(numbers) > 0 {
				h.Drawn(numbers[len(numbers)-1])
			}
			if seed%3 == 0 {
				h.Drawn(w.next)
			}
			to := h.Pass(numbers, more)
			for n := last + 1; n <= to; n++ {
				if w.visible[n] {
					passed[n] = true
				}
			}
			some(between)
			if w.rand.IntN(4) == 0 { // delivered rows are deleted
				for n := range passed {
					delete(w.visible, n)
				}
			}
			for n := range w.visible {
				if n <= to && !passed[n] {
					t.Fatalf("seed %d: %d appeared below %d", seed, n, to)
				}
			}
		}
		for range 60 {
			turn(6)
		}
		for len(w.txns) > 0 {
			w.step()
			w.txns = slices.DeleteFunc(w.txns, func(t *txn) bool {
				if w.rand.IntN(2) == 0 || t.drawing {
					return false
				}
				for _, n := range t.drawn {
					w.visible[n] = true
				}
				return true
			})
		}
		for range 400 {
			turn(1)
		}
		for n := range w.visible {
			if !passed[n] {
				t.Fatalf("seed %d: %d never passed: at %d of %d", seed, n, h.At(), w.next)
			}
		}
	}
}

// TestLowNumberCommitsLate: the number that was drawn first and committed last holds up all above it.
func TestLowNumberCommitsLate(t *testing.T) {
	t.Parallel()
	h := NewHorizon(0)
	pass := func(want uint64, numbers ...uint64) {
		t.Helper()
		if n := len(numbers); n > 0 {
			h.Drawn(numbers[n-1])
		}
		if got := h.Pass(numbers, false); got != want {
			t.Fatalf("passed up to %d, want %d", got, want)
		}
	}
	pass(1, 1, 3, 4)
	if !h.Held() {
		t.Fatal("3 and 4 are not held")
	}
	for range 3 { // however often one looks
		h.Observe([]Holder{{ID: "a", About: "the one with 2"}})
		pass(1, 3, 4)
	}
	if h.Culprit() != "the one with 2" {
		t.Errorf("culprit %q", h.Culprit())
	}
	// Another transaction that began after 4 was seen does not hold 2.
	h.Observe([]Holder{{ID: "a"}, {ID: "b"}})
	pass(1, 3, 4)
	h.Observe([]Holder{{ID: "b"}})
	pass(4, 2, 3, 4)
}

// TestRolledBack: a number that is never used holds up nothing once those who might have drawn it are gone.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	h := NewHorizon(10)
	h.Drawn(13)
	h.Pass([]uint64{12, 13}, false)
	h.Observe([]Holder{{ID: "a"}, {ID: "b"}})
	h.Pass([]uint64{12, 13}, false)
	h.Observe([]Holder{{ID: "b"}})
	if got := h.Pass([]uint64{12, 13}, false); got != 10 {
		t.Fatalf("passed up to %d while one is left", got)
	}
	h.Observe([]Holder{{ID: "c"}, {ID: "d"}})
	if got := h.Pass([]uint64{12, 13}, false); got != 13 || h.Held() {
		t.Fatalf("passed up to %d, held %v", got, h.Held())
	}
}

// TestListCutShort: nothing is concluded about what a list does not show.
func TestListCutShort(t *testing.T) {
	t.Parallel()
	h := NewHorizon(0)
	h.Drawn(100)
	h.Observe(nil)
	if got := h.Pass([]uint64{5, 7}, true); got != 7 {
		t.Fatalf("passed up to %d of a list that ends at 7", got)
	}
	if got := h.Pass([]uint64{50}, false); got != 100 {
		t.Fatalf("passed up to %d", got)
	}
}
