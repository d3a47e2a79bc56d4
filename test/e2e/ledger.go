package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// A Ledger notes what one sink kept, in the order in which it did. Safe for concurrent use.
type Ledger struct {
	Sink string

	mu       sync.Mutex
	records  map[int64]*record
	open     []*record      // delivered, and not known as settled
	verified map[string]int // how much of each group's commit order was delivered and is checked
	last     map[string]int64
	count    int64
	loose    bool // answers may be lost unseen: a repetition of what is not settled counts as hidden

	breaches map[string]int
	examples []string

	Stats Stats
}

// Stats is what a ledger counts.
type Stats struct {
	Deliveries, Messages, Duplicates int
	// Hidden answers: the sink kept a message, and said or seemed not to have.
	Hidden int
	// Unheard answers: nobody waited for them any more.
	Unheard int
	// Kills, and the most duplicates that followed one of them.
	Kills, WorstKill int
	// Unsettled is how many messages were not durably settled at the kills, all in all.
	Unsettled int

	sinceKill int
}

// String tells all of it in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d messages, %d deliveries, %d duplicates (at most %d after one kill), %d hidden answers, %d unheard, %d kills, %d unsettled at them",
		s.Messages, s.Deliveries, s.Duplicates, s.WorstKill, s.Hidden, s.Unheard, s.Kills, s.Unsettled)
}

type record struct {
	id      int64
	first   int64 // order of the first delivery; 0: none
	count   int
	allowed int // repetitions that kills and hidden answers explain
	attempt int // the highest that was seen
	settled bool
	// After how many kills it came first and last, and was found settled.
	firstLife, lastLife, settledAt int

	removed  bool // the application removed its row, so that the database does not show whether it is settled
	renumber bool
	givenUp  bool
	group    string
	position outbox.Position
}

// Delivery is what a sink got. Fields that its format does not carry are zero.
type Delivery struct {
	ID       string
	Group    string
	Position string
	Payload  []byte
	Attempt  int
	// Replaces is the id of the message that an operator's edit changed into this one.
	Replaces string
}

// NewLedger makes an empty ledger for a sink.
func NewLedger(sink string) *Ledger {
	return &Ledger{Sink: sink, records: map[int64]*record{}, verified: map[string]int{}, last: map[string]int64{},
		breaches: map[string]int{}}
}

func (l *Ledger) record(id int64) *record {
	r := l.records[id]
	if r == nil {
		r = &record{id: id}
		l.records[id] = r
	}
	return r
}

// breach notes that a promise was broken; the lock is held.
func (l *Ledger) breach(kind, format string, args ...any) {
	l.breaches[kind]++
	if l.breaches[kind] <= 5 {
		l.examples = append(l.examples, fmt.Sprintf("%s: %s: %s", l.Sink, kind, fmt.Sprintf(format, args...)))
	}
}

// Broke notes that a promise was broken.
func (l *Ledger) Broke(kind, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breach(kind, format, args...)
}

// Deliver notes deliveries that the sink keeps, in their order. Hidden says that it will not tell so.
func (l *Ledger) Deliver(hidden bool, ds ...Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ds {
		l.deliver(&ds[i], hidden)
	}
}

func (l *Ledger) deliver(d *Delivery, hidden bool) {
	name := d.ID
	if d.Replaces != "" {
		name = d.Replaces
	}
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		l.breach("changed", "id %q is no message's", d.ID)
		return
	}
	r := l.record(id)
	l.count++
	l.Stats.Deliveries++
	if r.count == 0 {
		l.Stats.Messages++
		r.first, r.firstLife = l.count, l.Stats.Kills
		r.group = d.Group
		l.open = append(l.open, r)
	} else {
		l.Stats.Duplicates++
		l.Stats.sinceKill++
		l.Stats.WorstKill = max(l.Stats.WorstKill, l.Stats.sinceKill)
		if r.settled {
			l.breach("repeated", "message %d (group %q, position %s) came again after kill %d; it came first after kill %d, last after %d, and was durably settled at kill %d",
				id, r.group, r.position, l.Stats.Kills, r.firstLife, r.lastLife, r.settledAt)
		} else if l.loose {
			r.allowed++
			l.Stats.Hidden++
		}
	}
	r.count++
	r.lastLife = l.Stats.Kills
	r.attempt = max(r.attempt, d.Attempt)
	if hidden {
		r.allowed++
		l.Stats.Hidden++
	}
	l.compare(r, d)
}

// compare looks at what a delivery carries.
func (l *Ledger) compare(r *record, d *Delivery) {
	if d.Position != "" {
		p, err := outbox.ParsePosition(d.Position)
		switch {
		case err != nil:
			l.breach("unstable", "message %d: %v", r.id, err)
		case r.renumber:
			r.position = outbox.Position{}
		case r.position.Log == p.Log && r.position != p || r.position.Log > p.Log: // a new log may renumber
			l.breach("unstable", "message %d came with position %s and with %s", r.id, r.position, p)
		default:
			r.position = p
		}
	}
	if d.Payload == nil {
		return
	}
	var body Body
	err := json.Unmarshal(d.Payload, &body)
	r.removed = body.Removed
	if err != nil || body.N != r.id {
		l.breach("changed", "message %d has the payload %.80q", r.id, d.Payload)
	} else if d.Group != "" && body.G != d.Group {
		l.breach("changed", "message %d of group %q came with group %q", r.id, body.G, d.Group)
	}
}

// Unheard notes that an answer came too late for whoever asked: the sink kept the messages, and did not get to say so.
func (l *Ledger) Unheard(ds []Delivery) {
	if len(ds) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Stats.Unheard++
	for i := range ds {
		if id, err := strconv.ParseInt(ds[i].ID, 10, 64); err == nil {
			l.record(id).allowed++
		}
	}
}

// Loose says that answers may be lost without anybody seeing it, as on a broken connection: what is not settled may then
// come again.
func (l *Ledger) Loose(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loose = on
}

// Killed notes that the relay, or its session, ended without warning while pending were the messages not durably settled:
// each of them may come once more, all others must not.
func (l *Ledger) Killed(pending []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Stats.Kills++
	l.Stats.Unsettled += len(pending)
	l.Stats.sinceKill = 0
	unsettled := make(map[int64]bool, len(pending))
	for _, id := range pending {
		unsettled[id] = true
		l.record(id).allowed++
	}
	l.open = slices.DeleteFunc(l.open, func(r *record) bool {
		if r.removed {
			r.allowed++
			return false
		}
		r.settled, r.settledAt = !unsettled[r.id], l.Stats.Kills
		return r.settled
	})
}

// Forgive allows each message to come once more, settled or not: an operator did something that repeats them.
func (l *Ledger) Forgive(ids ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		r := l.record(id)
		r.allowed++
		r.settled = false
	}
}

// Renumber allows messages a new position: they come from the table again, not from the log.
func (l *Ledger) Renumber(ids ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.record(id).renumber = true
	}
}

// GiveUp says that messages are dead or dropped: those behind them may come without them.
func (l *Ledger) GiveUp(ids ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.record(id).givenUp = true
	}
}

// Count is the number of different messages that came.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Stats.Messages
}

// Deliveries is how many deliveries came, repetitions included.
func (l *Ledger) Deliveries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Stats.Deliveries
}

// Times is how often a message came, and the highest attempt it came with.
func (l *Ledger) Times(id int64) (count, attempt int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.records[id]; r != nil {
		return r.count, r.attempt
	}
	return 0, 0
}

// AwaitAll waits until all that was committed by now has come: of rows that the application removed in the transaction that wrote them, the
// database shows nothing. What has not come after most is for Check to tell.
func (l *Ledger) AwaitAll(t *Truth, most time.Duration) {
	t.bed.tb.Helper()
	t.CatchUp()
	_ = within(most, func() string {
		if missing := l.missing(t); missing > 0 {
			return fmt.Sprintf("%d messages have not come", missing)
		}
		return ""
	})
}

// missing is how many of the committed messages have not come.
func (l *Ledger) missing(t *Truth) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range t.messages {
		if r := l.records[id]; r == nil || r.count == 0 && !r.givenUp {
			n++
		}
	}
	return n
}

// Check compares the ledger with what was committed. Complete says that nothing more is to come. Truth must be caught up
// with everything that was delivered.
func (l *Ledger) Check(t *Truth, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, ids := range t.groups {
		l.checkGroup(t, group, ids, complete)
	}
	for _, r := range l.records {
		m, ok := t.messages[r.id]
		switch {
		case r.count > 0 && !ok:
			l.breach("invented", "message %d was never committed", r.id)
		case r.count > 1+r.allowed:
			l.breach("repeated", "message %d came %d times, which %d kills and hidden answers do not explain", r.id, r.count, r.allowed)
			r.allowed = r.count - 1 // told once
		case r.count > 0 && r.position.Commit != 0 && !t.unplaced && (r.position.Commit != m.txn || !t.ascending && r.position.N != uint32(m.n)):
			l.breach("unstable", "message %d came with position %s, and was row %d of the transaction %016x", r.id, r.position, m.n, m.txn)
		}
	}
	if !complete {
		return
	}
	l.checkAscent(t)
	for id, m := range t.messages {
		if r := l.records[id]; m.group == "" && (r == nil || r.count == 0 && !r.givenUp) {
			l.breach("lost", "message %d, without a group, never came", id)
		}
	}
}

// checkAscent holds the positions of a transaction's rows against their order.
func (l *Ledger) checkAscent(t *Truth) {
	rows := map[uint64][]*record{}
	for _, r := range l.records {
		if m, ok := t.messages[r.id]; ok && r.count > 0 && r.position.Commit != 0 {
			rows[m.txn] = append(rows[m.txn], r)
		}
	}
	for txn, list := range rows {
		slices.SortFunc(list, func(a, b *record) int { return int(t.messages[a.id].n - t.messages[b.id].n) })
		for i := range list[1:] {
			if a, b := list[i], list[i+1]; a.position.Log == b.position.Log && a.position.Compare(b.position) >= 0 {
				l.breach("unstable", "messages %d and %d of the transaction %016x came with positions %s and %s", a.id, b.id, txn, a.position, b.position)
			}
		}
	}
}

// checkGroup holds a group's first deliveries against its commit order.
func (l *Ledger) checkGroup(t *Truth, group string, ids []int64, complete bool) {
	i, last := l.verified[group], l.last[group]
	for ; i < len(ids); i++ {
		r := l.records[ids[i]]
		if r != nil && r.givenUp && r.count == 0 {
			continue
		}
		if r == nil || r.count == 0 {
			break
		}
		if r.first < last && slices.ContainsFunc(ids[:i], func(id int64) bool {
			earlier := l.records[id]
			return earlier != nil && earlier.first > r.first && t.before(id, r.id)
		}) {
			l.breach("overtaken", "message %d (%d of group %s) first came before an earlier one of its group", r.id, i, group)
		}
		last = max(last, r.first)
	}
	l.verified[group], l.last[group] = i, last
	if i == len(ids) {
		return
	}
	for j, id := range ids[i+1:] {
		if r := l.records[id]; r != nil && r.count > 0 && t.before(ids[i], id) {
			l.breach("overtaken", "message %d (%d of group %s) came, and %d (%d) before it did not", id, i+1+j, group, ids[i], i)
			return
		}
	}
	if complete {
		m := t.messages[ids[i]]
		l.breach("lost", "%d messages of group %s, from %d (%d, transaction %016x, row %d) on, never came",
			len(ids)-i, group, ids[i], i, m.txn, m.n)
	}
}

// Verdict fails the test if a promise was broken.
func (l *Ledger) Verdict(tb testing.TB) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.breaches) > 0 {
		tb.Errorf("promises broken at sink %s: %v\n%s", l.Sink, l.breaches, strings.Join(l.examples, "\n"))
	}
}

// Broken reports whether a promise was broken so far.
func (l *Ledger) Broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.breaches) > 0
}

// String sums the ledger up.
func (l *Ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Sink + ": " + l.Stats.String()
}
