package poll

import "math"

// A Holder is a transaction that may have drawn numbers that nobody else can see yet.
type Holder struct {
	// ID names it for as long as it lasts, and no other transaction of the same life of the server.
	ID string
	// Before are names under which the same transaction may have been seen before.
	Before []string
	// Detached: it belongs to no session any more (a prepared transaction), so it may be any that has lost its name since.
	Detached bool
	// About tells people who it is.
	About string
}

// A Horizon finds out which rows can be delivered in the order of their numbers, so that none appears below them later. It
// knows neither tables nor time. Its use is a sequence of
//
//	Observe (where rows wait), list the numbers after At, Drawn, Pass
//
// where each step begins after the one before has its answer. The reasoning: a number up to drawn was drawn before the
// list of holders was asked for, by a transaction that has ended by then, and so is visible to whoever reads afterwards,
// or is on the list. A transaction that is on a list for the first time had drawn nothing when the list before was made, so what
// it holds is above all that was drawn by then: its floor. So up to the lowest floor nothing is left that could appear.
type Horizon struct {
	at, safe, drawn uint64
	// before is what drawn was when the last list was asked for.
	before   uint64
	observed bool
	holders  map[string]holder
	listed   uint64
}

type holder struct {
	floor uint64
	about string
}

// NewHorizon begins after a number up to which everything is settled.
func NewHorizon(at uint64) *Horizon { return &Horizon{at: at, safe: at, drawn: at, before: at} }

// At is the number up to which everything has passed, or will never appear.
func (h *Horizon) At() uint64 { return h.at }

// Drawn notes that n, and every number below it, had been drawn when the last answer came.
func (h *Horizon) Drawn(n uint64) { h.drawn = max(h.drawn, n) }

// Observe takes a list of all transactions that may hold numbers, asked for after the last call of Drawn.
func (h *Horizon) Observe(list []Holder) {
	fresh := h.at
	if h.observed {
		fresh = max(fresh, h.before)
	}
	now := make(map[string]holder, len(list))
	here := make(map[string]bool, len(list))
	for _, t := range list {
		here[t.ID] = true
	}
	gone := uint64(math.MaxUint64)
	for id, t := range h.holders {
		if !here[id] {
			gone = min(gone, t.floor)
		}
	}
	safe := h.drawn
	for _, t := range list {
		floor := fresh
		if known, ok := h.holders[t.ID]; ok {
			floor = known.floor
		} else {
			for _, id := range t.Before {
				if known, ok := h.holders[id]; ok {
					floor = min(floor, known.floor)
				}
			}
			if t.Detached {
				floor = min(floor, gone)
			}
		}
		now[t.ID] = holder{floor, t.About}
		safe = min(safe, floor)
	}
	h.holders, h.before, h.observed = now, h.drawn, true
	h.safe = max(h.safe, safe)
}

// Pass takes the numbers of the rows that can be seen after At, ascending; more tells that there may be others above them. It
// returns the number up to which everything can be delivered now, which becomes At.
func (h *Horizon) Pass(numbers []uint64, more bool) uint64 {
	h.listed = 0
	to := h.safe
	if len(numbers) > 0 {
		h.listed = numbers[len(numbers)-1]
		if more {
			to = min(to, h.listed)
		}
	}
	to = max(to, h.at)
	for _, n := range numbers {
		if n > to+1 {
			break // a gap
		}
		to = max(to, n)
	}
	h.at = to
	return to
}

// Held reports whether rows that were listed last wait behind a gap.
func (h *Horizon) Held() bool { return h.listed > h.at }

// Culprit is one of the transactions that hold the horizon back most, "" if there is none.
func (h *Horizon) Culprit() string {
	about, lowest := "", uint64(math.MaxUint64)
	for _, t := range h.holders {
		if t.floor < lowest || t.floor == lowest && t.about < about {
			about, lowest = t.about, t.floor
		}
	}
	return about
}
