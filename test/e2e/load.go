package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Body is the payload of a message: it names the message and its group, so that what comes can be checked.
type Body struct {
	N   int64  `json:"n"`
	G   string `json:"g"`
	Pad string `json:"pad"`
	// T is when the row was written, in nanoseconds since 1970.
	T int64 `json:"t"`
	// Removed: the transaction that inserted the row deleted it too.
	Removed bool `json:"removed,omitempty"`
}

// A Load writes messages into the bed's outbox tables: transactions of random size, which commit out of the order of their
// ids, some of which are rolled back. Writers outlive a server that goes away.
type Load struct {
	// Writers and Groups. Defaults 8 and 200.
	Writers, Groups int
	// MaxRows of a transaction; sizes are spread evenly over their magnitudes. Default 500.
	MaxRows int
	// Rows of each transaction, which is committed at once then; 0 = random sizes, lingering, and some are rolled back.
	Rows int
	// Rate is about how many messages a second are written, all in all; 0 = as many as possible.
	Rate float64
	// Backlog is how far delivery may fall behind before the writers wait for it. Default 20000.
	Backlog int
	// Delivered is how many messages were delivered so far, for Backlog. Nil: writers never wait.
	Delivered func() int
	// Topic of the rows of events.
	Topic string
	// PadBytes is the most filling in a payload. Default 200.
	PadBytes int
	// Prepare is executed in each writer's session, such as SET synchronous_commit = off.
	Prepare string
	// Churn makes some transactions delete the rows of outbox that they inserted, which counts as delivered all the same.
	Churn bool
	// Tables restricts the load to "outbox" or "events". Default both.
	Tables string

	bed     *Bed
	written atomic.Int64
	stop    context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// Run starts the writers. Stop ends them.
func (l *Load) Run(b *Bed) {
	b.tb.Helper()
	l.bed = b
	defaults(&l.Writers, 8)
	defaults(&l.Groups, 200)
	defaults(&l.MaxRows, 500)
	defaults(&l.Backlog, 20000)
	defaults(&l.PadBytes, 200)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for i := range l.Writers {
		l.done.Go(func() { l.write(ctx, rand.New(rand.NewPCG(b.Seed, uint64(i)+1))) })
	}
	b.tb.Cleanup(func() { stop(); l.done.Wait() })
}

func defaults(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Stop ends the writers and waits for them. It fails the test if one failed for another reason than a server that is away.
func (l *Load) Stop() {
	l.bed.tb.Helper()
	l.stop()
	l.done.Wait()
	if l.err != nil {
		l.bed.tb.Errorf("write messages: %v", l.err)
	}
}

// Written is about how many messages were committed: an answer lost to a crash is not counted.
func (l *Load) Written() int { return int(l.written.Load()) }

// write is one writer.
func (l *Load) write(ctx context.Context, r *rand.Rand) {
	var w writer
	defer func() {
		if w != nil {
			w.close()
		}
	}()
	for ctx.Err() == nil {
		if w == nil || w.broken() {
			if w != nil {
				w.close()
			}
			if w = l.connect(ctx); w == nil {
				wait(ctx, 50*time.Millisecond)
				continue
			}
		}
		if l.Delivered != nil && l.Written()-l.Delivered() > l.Backlog {
			wait(ctx, 20*time.Millisecond)
			continue
		}
		rows := l.Rows
		if rows == 0 { // sizes of all magnitudes are equally likely
			rows = int(math.Exp(r.Float64() * math.Log(float64(l.MaxRows)+0.999)))
		}
		began := time.Now()
		if err := l.transaction(ctx, w, r, rows); err != nil && ctx.Err() == nil && !w.broken() {
			if !l.bed.database.away(err) {
				l.fail(err)
				return
			}
			w.close()
			w = nil
		}
		if l.Rate > 0 {
			due := time.Duration(float64(rows) * float64(l.Writers) / l.Rate * float64(time.Second))
			l.rest(ctx, due-time.Since(began))
		}
	}
}

// connect returns nil if the server is away.
func (l *Load) connect(ctx context.Context) writer {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	w, err := l.bed.database.writer(ctx, l.Prepare)
	if err != nil {
		return nil
	}
	return w
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *Load) rest(ctx context.Context, d time.Duration) {
	if d > 0 {
		wait(ctx, d)
	}
}

// transaction writes one. Ids are taken first; now and then it lingers before it commits, so that later ids commit first.
func (l *Load) transaction(ctx context.Context, w writer, r *rand.Rand, rows int) error {
	first, second := rows, 0
	switch {
	case l.Tables == "events":
		first, second = 0, rows
	case l.Tables == "" && r.IntN(3) == 0:
		first = r.IntN(rows + 1)
		second = rows - first
	}
	churn := l.Churn && first > 0 && r.IntN(8) == 0
	linger := l.Rows == 0 && r.IntN(4) == 0
	undo := l.Rows == 0 && r.IntN(20) == 0
	// It is brought to its end even when the load ends: what is committed behind its back, or left open, nobody would wait for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := w.begin(ctx, rows == 1 && !churn && !undo); err != nil {
		return err
	}
	err := l.fill(ctx, w, r, first, second, churn, linger)
	if err != nil || undo {
		// After an error it may be over, and its session broken.
		return errors.Join(err, w.rollback(ctx))
	}
	if err := w.commit(ctx); err != nil {
		return err
	}
	l.written.Add(int64(rows))
	return nil
}

// fill is what stands in a transaction.
func (l *Load) fill(ctx context.Context, w writer, r *rand.Rand, first, second int, churn, linger bool) error {
	var ids []int64
	if first > 0 {
		var err error
		if ids, err = l.insert(ctx, w, r, "outbox", first, churn); err != nil {
			return err
		}
	}
	if linger {
		wait(ctx, time.Duration(r.IntN(30))*time.Millisecond)
	}
	if second > 0 {
		if _, err := l.insert(ctx, w, r, "events", second, false); err != nil {
			return err
		}
	}
	if churn {
		return w.remove(ctx, ids)
	}
	return nil
}

// insert writes rows of one table with one statement.
func (l *Load) insert(ctx context.Context, w writer, r *rand.Rand, table string, rows int, churn bool) ([]int64, error) {
	ids, err := w.ids(ctx, rows)
	if err != nil {
		return nil, err
	}
	list := make([]written, rows)
	for i, id := range ids {
		key := fmt.Sprint(r.IntN(l.Groups))
		list[i] = written{id: id, key: key, group: "order:" + key, topic: l.Topic}
		if table == "events" && r.IntN(20) == 0 {
			list[i].group = ""
		}
		list[i].payload, err = json.Marshal(Body{N: id, G: list[i].group, T: time.Now().UnixNano(), Removed: churn, Pad: strings.Repeat("x", r.IntN(l.PadBytes))})
		if err != nil {
			return nil, err
		}
	}
	return ids, w.insert(ctx, table, list)
}
