package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Truth is what was committed, in commit order, as the server's log shows it to a reader of its own: it shares no code with
// the relay. Safe for concurrent use.
type Truth struct {
	bed      *Bed
	follower follower

	mu        sync.Mutex
	err       error // the last one that passed
	groups    map[string][]int64
	messages  map[int64]committed
	txns      int
	reordered int // transactions that committed after one with higher ids
	maxID     int64
	// ByTime: what no log shows any more has the order of commit times. A server takes the time of a commit before it writes the commit into its log, so
	// two transactions that commit at once may have times that contradict the log. The sweep then delivers them in the order of their times.
	ByTime bool
	times  map[uint64]int64 // of transactions, in microseconds, where the log tells it
	// contrary counts transactions whose time is before that of one that is earlier in the log.
	contrary int
	latest   int64
	// ascending: the number of a row in its position is not n, but ascends as n does.
	ascending bool
	// unplaced: nothing is known of where in the log messages stand.
	unplaced bool
}

// A follower reads a server's log into a Truth.
type follower interface {
	// follow reads until the connection ends. The next call goes on behind the last transaction that was read to its end.
	follow(ctx context.Context) error
	// goal is where the log ends now; reached tells whether it was read up to there, and may ask for it.
	goal() (uint64, error)
	reached(goal uint64) bool
}

// committed is a message that was committed.
type committed struct {
	group string // "": none
	index int    // in its group's commit order; -1: no group
	txn   uint64 // as positions have it: final LSN, place of its GTID in the binlog, cluster time
	n     int32  // row in its transaction, counting both tables
}

type row struct {
	id    int64
	group string
	n     int32
}

// NewTruth reads what is committed since the bed was made, until the test ends. A server that goes away is waited for.
func NewTruth(b *Bed) *Truth {
	t := &Truth{bed: b, groups: map[string][]int64{}, messages: map[int64]committed{}, times: map[uint64]int64{}}
	t.follower = b.database.follower(t)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			if err := t.follower.follow(ctx); err != nil && ctx.Err() == nil {
				t.mu.Lock()
				t.err = err
				t.mu.Unlock()
				wait(ctx, 50*time.Millisecond)
			}
		}
	})
	b.tb.Cleanup(func() { stop(); reading.Wait() })
	return t
}

// CatchUp waits until it has everything that is committed now.
func (t *Truth) CatchUp() {
	t.bed.tb.Helper()
	var goal uint64
	t.bed.Eventually(time.Minute, func() string {
		if goal == 0 {
			var err error
			if goal, err = t.follower.goal(); err != nil {
				return err.Error()
			}
		}
		if t.follower.reached(goal) {
			return ""
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Sprintf("the commit order is not read up to %d (last error: %v)", goal, t.err)
	})
}

// commit takes a transaction.
func (t *Truth) commit(txn uint64, rows []row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.txns++
	for i := range rows {
		t.insert(txn, &rows[i])
	}
}

// time takes the time of a transaction.
func (t *Truth) time(txn uint64, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[txn] = at
	if at < t.latest {
		t.contrary++
	}
	t.latest = max(t.latest, at)
}

// before reports whether a message that is earlier in the log has to come before another one; the lock is held.
func (t *Truth) before(earlier, later int64) bool {
	a, b := t.messages[earlier].txn, t.messages[later].txn
	return !t.ByTime || a == b || t.times[a] < t.times[b]
}

// insert takes a row of a transaction that was read to its end; the lock is held.
func (t *Truth) insert(txn uint64, r *row) {
	m := committed{group: r.group, index: -1, txn: txn, n: r.n}
	if r.group != "" {
		m.index = len(t.groups[r.group])
		t.groups[r.group] = append(t.groups[r.group], r.id)
	}
	t.messages[r.id] = m
	if r.n == 0 && r.id < t.maxID {
		t.reordered++
	}
	t.maxID = max(t.maxID, r.id)
}

// Count is the number of messages that were committed, as far as it was read.
func (t *Truth) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.messages)
}
