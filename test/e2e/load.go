package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
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
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.Background()) // whatever state it is in
		}
	}()
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = l.connect(ctx); err != nil {
				conn = nil
				l.rest(ctx, 50*time.Millisecond)
				continue
			}
		}
		if l.Delivered != nil && l.Written()-l.Delivered() > l.Backlog {
			l.rest(ctx, 20*time.Millisecond)
			continue
		}
		rows := l.Rows
		if rows == 0 { // sizes of all magnitudes are equally likely
			rows = int(math.Exp(r.Float64() * math.Log(float64(l.MaxRows)+0.999)))
		}
		began := time.Now()
		if err := l.transaction(ctx, conn, r, rows); err != nil && ctx.Err() == nil && !conn.IsClosed() {
			l.fail(err)
			return
		}
		if l.Rate > 0 {
			due := time.Duration(float64(rows) * float64(l.Writers) / l.Rate * float64(time.Second))
			l.rest(ctx, due-time.Since(began))
		}
	}
}

func (l *Load) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, l.bed.PG.SocketURL(l.bed.DB))
	if err != nil {
		return nil, err
	}
	if l.Prepare != "" {
		if _, err := conn.Exec(ctx, l.Prepare); err != nil {
			l.fail(fmt.Errorf("%s: %w", l.Prepare, err))
		}
	}
	return conn, nil
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A server that is going down or coming up says so in a class of its own.
	if text := err.Error(); strings.Contains(text, "SQLSTATE 57P") {
		return
	}
	if l.err == nil {
		l.err = err
	}
}

func (l *Load) rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// transaction writes one. Ids are taken first; now and then it lingers before it commits, so that later ids commit first.
func (l *Load) transaction(ctx context.Context, conn *pgx.Conn, r *rand.Rand, rows int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	first, second := rows, 0
	switch {
	case l.Tables == "events":
		first, second = 0, rows
	case l.Tables == "" && r.IntN(3) == 0:
		first = r.IntN(rows + 1)
		second = rows - first
	}
	churn := l.Churn && first > 0 && r.IntN(8) == 0
	var outboxIDs []int64
	if first > 0 {
		if outboxIDs, err = l.insert(ctx, tx, r, first, false, churn); err != nil {
			return err
		}
	}
	if l.Rows == 0 && r.IntN(4) == 0 {
		l.rest(ctx, time.Duration(r.IntN(30))*time.Millisecond)
	}
	if second > 0 {
		if _, err = l.insert(ctx, tx, r, second, true, false); err != nil {
			return err
		}
	}
	if churn {
		if _, err := tx.Exec(ctx, `DELETE FROM outbox WHERE id = ANY($1)`, outboxIDs); err != nil {
			return err
		}
	}
	if l.Rows == 0 && r.IntN(20) == 0 {
		return nil // rolled back
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	l.written.Add(int64(rows))
	return nil
}

// insert writes rows of one table with one statement.
func (l *Load) insert(ctx context.Context, tx pgx.Tx, r *rand.Rand, rows int, events, churn bool) ([]int64, error) {
	ids := make([]int64, 0, rows)
	got, err := tx.Query(ctx, `SELECT nextval('message_id') FROM generate_series(1, $1)`, rows)
	if err != nil {
		return nil, err
	}
	if ids, err = pgx.AppendRows(ids, got, pgx.RowTo[int64]); err != nil {
		return nil, err
	}
	keys, groups, payloads := make([]string, rows), make([]*string, rows), make([]string, rows)
	for i, id := range ids {
		keys[i] = fmt.Sprint(r.IntN(l.Groups))
		group := "order:" + keys[i]
		groups[i] = &group
		if events && r.IntN(20) == 0 {
			group, groups[i] = "", nil
		}
		text, err := json.Marshal(Body{N: id, G: group, T: time.Now().UnixNano(), Removed: churn, Pad: strings.Repeat("x", r.IntN(l.PadBytes))})
		if err != nil {
			return nil, err
		}
		payloads[i] = string(text)
	}
	if events {
		_, err = tx.Exec(ctx, `INSERT INTO events (id, type, topic, message_group, key, payload)
			SELECT id, 'Changed', $5, g, k, convert_to(p, 'UTF8')
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS u(id, g, k, p)`, ids, groups, keys, payloads, l.Topic)
	} else {
		_, err = tx.Exec(ctx, `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
			SELECT id, 'order', k, 'Placed', p::jsonb FROM unnest($1::bigint[], $2::text[], $3::text[]) AS u(id, k, p)`,
			ids, keys, payloads)
	}
	return ids, err
}
