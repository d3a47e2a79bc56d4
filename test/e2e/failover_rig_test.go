//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

// failovers is a relay, writers, and a Postgres that is replaced under them: by its standby, or by an older state of itself. Each message takes its group's next number
// in its transaction, and is noted in a table ledger: the server that is there at the end knows what was committed, and in which order.
type failovers struct {
	*Bed
	ledger   *Ledger
	endpoint *Endpoint
	consumer consumer
	standby  *servers.PG
	relay    *Relay
	round    int

	primary atomic.Pointer[servers.PG]
	written atomic.Int64 // transactions that were acknowledged
	stop    context.CancelFunc
	writers sync.WaitGroup
}

// A consumer keeps the highest position of each group, and drops what is not beyond it, as docs/guarantees.md recommends.
type consumer struct {
	mu      sync.Mutex
	highest map[string]string
	seen    map[string]bool
	dropped []string // messages that it has never seen before
}

func (c *consumer) take(q Request) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range q.Deliveries {
		var body Body // not each format names the group
		if err := json.Unmarshal(d.Payload, &body); err != nil {
			c.dropped = append(c.dropped, d.ID+": "+err.Error())
			continue
		}
		if d.Position <= c.highest[body.G] {
			if !c.seen[d.ID] {
				c.dropped = append(c.dropped, d.ID+" of "+body.G+" at "+d.Position+" after "+c.highest[body.G])
			}
		} else {
			c.highest[body.G] = d.Position
		}
		c.seen[d.ID] = true
	}
	return Answer{}
}

const groupsOfFailovers = 40

// newFailovers makes a server, a relay that reads it, and writers. With a standby its slot is synchronised.
func newFailovers(t *testing.T, standby bool) *failovers {
	t.Helper()
	f := &failovers{ledger: NewLedger("hook"), consumer: consumer{highest: map[string]string{}, seen: map[string]bool{}}}
	f.endpoint = NewEndpoint(t, f.ledger)
	f.endpoint.Answer(f.consumer.take)
	f.ledger.Loose(true)
	f.Bed = NewBed(t, Options{Own: true, Settings: []servers.Option{servers.WithSetting("wal_log_hints", "on"), servers.WithSetting("track_commit_timestamp", "on"),
		servers.WithSetting("sync_replication_slots", "on")}})
	first := f.PG
	f.primary.Store(first)
	t.Cleanup(func() {
		if f.standby == first { // whose database is dropped
			if err := first.Promote(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	f.Exec(`SELECT pg_drop_replication_slot($1)`, f.Slot("truth"))
	f.Exec(`CREATE TABLE grp AS SELECT id, 0::bigint AS n FROM generate_series(0, $1::int - 1) id`, groupsOfFailovers)
	f.Exec(`ALTER TABLE grp ADD PRIMARY KEY (id)`)
	f.Exec(`CREATE TABLE ledger (id bigint PRIMARY KEY, g int NOT NULL, n bigint NOT NULL)`)
	o := Options{Top: []string{retryFast}, Source: []string{"reconcile: 0s"},
		Tables: "\n    - {name: public.outbox, shape: debezium}\n", Sinks: []string{fmt.Sprintf("hook: {kind: http, url: %q, timeout: 2s}", f.endpoint.URL(false))}}
	if standby {
		f.standby = f.PG.AddStandby(t)
		o.Source = append(o.Source, "failover: true")
		hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", f.PG.Port, f.standby.Port)
		o.URL = func(b *Bed) string {
			return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&target_session_attrs=read-write", hosts, b.DB)
		}
	}
	f.Configure(o)
	f.MustCommand("init")
	f.relay = f.Start(nil)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	for range 3 {
		f.writers.Go(func() { f.write(ctx) })
	}
	t.Cleanup(func() { stop(); f.writers.Wait() })
	return f
}

// write commits transactions until ctx ends, at whatever server is the primary. It finishes the last one: the server could commit what was
// broken off after the test has asked it what was committed.
func (f *failovers) write(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, f.primary.Load().SocketURL(f.DB))
		for err == nil && ctx.Err() == nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			if err = f.transaction(last, conn); err == nil {
				f.written.Add(1)
			}
			cancel()
			wait(ctx, 10*time.Millisecond)
		}
		if conn != nil {
			_ = conn.Close(context.Background()) // whatever state it is in
		}
		wait(ctx, 50*time.Millisecond)
	}
}

// transaction writes a few messages of one group.
func (f *failovers) transaction(ctx context.Context, conn *pgx.Conn) error {
	first := f.lastID.Add(5) - 4
	n := 1 + int(first/5%4)
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(`UPDATE grp SET n = n + $2 WHERE id = $1`, first/5%groupsOfFailovers, n)
	for i := range n {
		// One command a row: what a command writes has no order.
		b.Queue(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT $1, 'order', g.id::text, 'Placed',
			jsonb_build_object('n', $1::bigint, 'g', 'order:' || g.id) FROM grp g WHERE g.id = $2`, first+int64(i), first/5%groupsOfFailovers)
		b.Queue(`INSERT INTO ledger SELECT $1, g.id, g.n - $3 FROM grp g WHERE g.id = $2`, first+int64(i), first/5%groupsOfFailovers, n-i)
	}
	b.Queue("COMMIT")
	return conn.SendBatch(ctx, b).Close()
}

// ready waits until a failover to the standby would lose nothing that the relay has read: the standby's slot is waited for, and the relay's is synchronised.
func (f *failovers) ready(synchronous bool) {
	f.tb.Helper()
	required := f.standby
	if !synchronous {
		required = nil
	}
	f.Exec("ALTER SYSTEM SET synchronized_standby_slots = '" + f.standby.StandbyName + "'")
	if err := f.PG.RequireStandby(f.context(), required); err != nil {
		f.tb.Fatal(err)
	}
	slot := f.Slot("relay")
	f.Eventually(2*time.Minute, func() string {
		conn, err := pgx.Connect(f.context(), f.standby.SocketURL(f.DB))
		if err != nil {
			return err.Error()
		}
		defer conn.Close(context.Background())
		// One that the server had as a primary is in the way.
		if _, err := conn.Exec(f.context(), `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT synced AND NOT active`, slot); err != nil {
			return err.Error()
		}
		var ok bool
		err = conn.QueryRow(f.context(), `SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_name = $1 AND synced AND NOT temporary AND invalidation_reason IS NULL`, slot).Scan(&ok)
		if err != nil || !ok {
			f.Exec("SELECT pg_log_standby_snapshot()")
			return fmt.Sprintf("the slot is not synchronised (%v)", err)
		}
		return ""
	})
}

// happen is a way in which the primary goes away, and the standby takes its place.
type happen string

const (
	killed       happen = "killed"
	killedLate   happen = "killed, and promoted late"
	killedRelay  happen = "killed, and the relay with it"
	planned      happen = "stopped"
	laggingBy1s  happen = "killed while the standby lags"
	laggingRelay happen = "killed with the relay while the standby lags"
)

// failover lets it happen, and makes the old primary the new standby by pg_rewind.
func (f *failovers) failover(how happen) {
	f.tb.Helper()
	f.round++
	must := func(what string, err error) {
		f.tb.Helper()
		if err != nil {
			f.tb.Fatalf("round %d (%s): %s: %v", f.round, how, what, err)
		}
	}
	old, next := f.PG, f.standby
	lag := how == laggingBy1s || how == laggingRelay
	if lag {
		must("pause", next.Pause())
		Pause(time.Second)
	}
	if how == killedRelay || how == laggingRelay {
		f.relay.Kill()
	}
	if how == planned {
		must("stop", old.Stop())
	} else {
		must("kill", old.Kill())
	}
	if how == killedLate {
		Pause(2 * time.Second)
	}
	if lag {
		must("resume", next.Resume())
	}
	must("promote", next.Promote(f.context()))
	f.PG, f.standby = next, old
	f.Exec("ALTER SYSTEM SET synchronized_standby_slots = ''")
	must("require nobody", next.RequireStandby(f.context(), nil))
	f.primary.Store(next)
	if how == killedRelay || how == laggingRelay {
		f.relay = f.Start(nil)
	}
	before := f.ledger.Count()
	f.Eventually(time.Minute, func() string {
		if f.ledger.Count() < before+20 {
			return fmt.Sprintf("round %d (%s): nothing new was delivered after the failover", f.round, how)
		}
		return ""
	})
	must("rewind", old.Rewind(f.context(), next, fmt.Sprintf("standby_%d", f.round)))
}

// settled stops the writers, and waits until all that the server knows of has come.
func (f *failovers) settled() (truth *Truth) {
	f.tb.Helper()
	f.stop()
	f.writers.Wait()
	truth = &Truth{bed: f.Bed, groups: map[string][]int64{}, messages: map[int64]committed{}, unplaced: true}
	type entry struct {
		id   int64
		g, n int
	}
	conn, err := pgx.Connect(f.context(), f.PG.SocketURL(f.DB))
	if err != nil {
		f.tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(f.context(), `SELECT id, g, n::int FROM ledger ORDER BY g, n`)
	if err != nil {
		f.tb.Fatal(err)
	}
	var e entry
	if _, err := pgx.ForEachRow(rows, []any{&e.id, &e.g, &e.n}, func() error {
		truth.commit(uint64(len(truth.messages)+1), []row{{id: e.id, group: fmt.Sprintf("order:%d", e.g)}})
		return nil
	}); err != nil {
		f.tb.Fatal(err)
	}
	f.Eventually(2*time.Minute, func() string {
		if n := f.ledger.missing(truth); n > 0 {
			return fmt.Sprintf("%d of %d messages have not come", n, len(truth.messages))
		}
		return ""
	})
	f.AwaitSettled(time.Minute)
	f.relay.Stop()
	return truth
}

// judge wants nothing lost, nothing overtaken, nothing that was not committed, and nothing that the consumer dropped though it was new.
func (f *failovers) judge() {
	f.tb.Helper()
	truth := f.settled()
	f.ledger.Check(truth, true)
	f.ledger.Verdict(f.tb)
	f.nothingDropped()
	if text, err := os.ReadFile(f.LogFile); err != nil || strings.Contains(string(text), "log position lost") {
		f.tb.Errorf("the relay lost its position, though the slot was synchronised (%v)", err)
	}
	f.tb.Logf("%d failovers, %d transactions acknowledged, %d messages at the end; %s", f.round, f.written.Load(), len(truth.messages), f.ledger)
}

func (f *failovers) nothingDropped() {
	f.tb.Helper()
	f.consumer.mu.Lock()
	defer f.consumer.mu.Unlock()
	if n := len(f.consumer.dropped); n > 0 {
		f.tb.Errorf("a consumer that keeps the highest position dropped %d messages that it never saw, such as %s", n, f.consumer.dropped[0])
	}
}
