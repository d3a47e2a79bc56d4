package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

// A rival is a way from an outbox table to Kafka. tailbox is one of them.
type rival struct {
	name string
	// http: it can also post to an endpoint.
	http bool
	// ready prepares it on a database whose outbox is empty, and returns its process. to is a Kafka topic, or the URL of an endpoint.
	ready func(ctx context.Context, db *base, to destination) (*contender, error)
}

// A destination is a topic, or an endpoint if url is set.
type destination struct {
	topic, url string
}

// A contender is a rival's process, which can be started again and again.
type contender struct {
	log string
	cmd func(context.Context) *exec.Cmd
	// reached reports whether it reads, and whether it has settled the backlog.
	reached func(context.Context) (active, done bool, err error)
}

const (
	unix     = "tailbox, Unix socket"
	tcp      = "tailbox, TCP"
	debezium = "Debezium Server, TCP"
	pqcdc    = "go-pq-cdc with a handler, TCP"
	polling  = "SKIP LOCKED poller, TCP"
)

func rivals() []rival {
	return []rival{
		{name: unix, ready: tailboxContender(false)},
		{name: tcp, http: true, ready: tailboxContender(true)},
		{name: debezium, http: true, ready: debeziumContender},
		{name: pqcdc, ready: pqcdcContender},
		{name: polling, ready: pollContender},
	}
}

// runRivals lets each rival drain the same backlog to a topic of its own, then carry a steady trickle, with the same process, so that what is
// compiled while it runs is compiled.
func runRivals(ctx context.Context, b *bench) error {
	figures := map[string]*rivalFigures{}
	all := rivals()
	for _, r := range all {
		figures[r.name] = &rivalFigures{}
	}
	if err := b.warmUp(ctx, &all[0]); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for round := range b.rounds {
		for _, i := range rand.Perm(len(all)) {
			if err := b.contend(ctx, fmt.Sprintf("round %d", round+1), b.rows, &all[i], figures[all[i].name]); err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	for _, r := range all {
		figures[r.name].note(&b.table, r.name)
	}
	for _, name := range []string{unix, tcp} {
		figures[name].against(&b.table, name, figures[debezium])
	}
	return nil
}

// warmUps is how many runs of warmUpRows at most the broker's JVM needs to compile what it does. The p99 of the first is up to a hundred times that of the
// fourth, and with 20,000 rows it still falls after that.
const warmUps, warmUpRows = 6, 200_000

// warmUp lets a rival run before any is measured, so that no rival's figures hold the time in which the broker's JVM compiles.
func (b *bench) warmUp(ctx context.Context, r *rival) error {
	for range warmUps {
		if err := b.contend(ctx, "not measured", min(b.rows, warmUpRows), r, &rivalFigures{}); err != nil {
			return err
		}
	}
	return nil
}

// rivalFigures are those of a rival, of each round.
type rivalFigures struct {
	rate, drainMicros, p50, p99, steadyMicros, megabytes []float64
}

func (f *rivalFigures) note(t *table, name string) {
	t.note(name, fmt.Sprintf("%s msg/s, %s µs a message, %s MB; at %d msg/s p50 %s ms, p99 %s ms, %s µs a message", spreadOf(f.rate, "%.0f"),
		spreadOf(f.drainMicros, "%.1f"), spreadOf(f.megabytes, "%.0f"), latencyRate, spreadOf(f.p50, "%.2f"), spreadOf(f.p99, "%.1f"), spreadOf(f.steadyMicros, "%.0f")), true, "")
}

// against notes how often better than another.
func (f *rivalFigures) against(t *table, name string, o *rivalFigures) {
	times := func(mine, others []float64) string { return spreadOf(ratios(mine, others), "%.2f") }
	t.note(name+" in terms of Debezium Server", fmt.Sprintf("rate %s, processor a message %s, memory %s; steady: p50 %s, p99 %s, processor %s", times(f.rate, o.rate),
		spreadOf(ratios(o.drainMicros, f.drainMicros), "1/%.1f"), spreadOf(ratios(o.megabytes, f.megabytes), "1/%.1f"), times(f.p50, o.p50), times(f.p99, o.p99),
		times(f.steadyMicros, o.steadyMicros)), true, "")
}

// ratios are those of the figures of two, round by round.
func ratios(of, to []float64) (all []float64) {
	for i := range min(len(of), len(to)) {
		all = append(all, of[i]/to[i])
	}
	return all
}

// contend is one run of a rival on a database of its own, with a backlog of so many rows. The label names the run on the terminal.
func (b *bench) contend(ctx context.Context, label string, rows int, r *rival, f *rivalFigures) (err error) {
	topic, err := b.topic(partitions)
	if err != nil {
		return err
	}
	db, err := b.outbox(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	c, err := r.ready(ctx, db, destination{topic: topic})
	if err != nil {
		return err
	}
	if err := db.fill(ctx, rows, perTxn, spread); err != nil {
		return err
	}
	p, err := launch(c.cmd(ctx), c.log, nil)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }() // the exit code of a virtual machine that is ended tells nothing
	took, drained, err := db.drained(ctx, c, p)
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(c.log))
	}
	// The server does not vacuum by itself here, and whoever deletes rows would go on reading what is left of them.
	if err := db.exec(ctx, "VACUUM outbox"); err != nil {
		return err
	}
	tr, err := db.steady(ctx, topic, p.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(c.log))
	}
	f.rate = append(f.rate, float64(rows)/took.Seconds())
	f.drainMicros = append(f.drainMicros, float64(drained.Microseconds())/float64(rows))
	f.p50 = append(f.p50, e2e.Quantile(tr.laps, 0.5).Seconds()*1000)
	f.p99 = append(f.p99, e2e.Quantile(tr.laps, 0.99).Seconds()*1000)
	f.steadyMicros = append(f.steadyMicros, tr.micros)
	f.megabytes = append(f.megabytes, float64(tr.ended.PeakRSS)/1e6)
	last := len(f.rate) - 1
	fmt.Printf("  %s: %-26s %7.0f msg/s %6.1f µs a message %5.0f MB; steady p50 %.2f ms p99 %.1f ms %4.0f µs a message\n", label, r.name, f.rate[last],
		f.drainMicros[last], f.megabytes[last], f.p50[last], f.p99[last], f.steadyMicros[last])
	return nil
}

// drained waits until a backlog is settled, from the first sight of a reader, and returns the processor time meanwhile.
func (db *base) drained(ctx context.Context, c *contender, p *process) (took, processor time.Duration, err error) {
	var began time.Time
	var before e2e.Usage
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-p.exited:
			return 0, 0, errEndedEarly
		case <-tick.C:
		}
		active, done, err := c.reached(ctx)
		switch {
		case err != nil:
			return 0, 0, err
		case done && !began.IsZero():
			after, err := e2e.ReadUsage(p.cmd.Process.Pid)
			return time.Since(began), after.CPU - before.CPU, err
		case active && began.IsZero():
			began = time.Now()
			if before, err = e2e.ReadUsage(p.cmd.Process.Pid); err != nil {
				return 0, 0, err
			}
		}
	}
}

// outbox makes a database with an outbox table as Debezium's documentation has it.
func (b *bench) outbox(ctx context.Context) (*base, error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return nil, err
	}
	return db, db.exec(ctx, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
		aggregateid varchar(255) NOT NULL, type varchar(255), payload jsonb)`)
}

// publish makes the publication of the outbox. tailbox makes its own.
func (db *base) publish(ctx context.Context) error {
	return db.exec(ctx, "CREATE PUBLICATION bench FOR TABLE outbox WITH (publish = 'insert')")
}

func tailboxContender(overTCP bool) func(context.Context, *base, destination) (*contender, error) {
	return func(ctx context.Context, db *base, to destination) (*contender, error) {
		sink := db.kafkaSink("")
		if to.url != "" {
			sink = fmt.Sprintf("sinks: {out: {kind: http, url: %q, format: single}}", to.url)
		}
		r, err := db.relay(ctx, overTCP, withTopic(keepTable, to.topic), "memory: 22MiB\n"+sink)
		if err != nil {
			return nil, err
		}
		return &contender{log: r.log, cmd: r.cmd, reached: db.slotReached(r.slot)}, nil
	}
}

// pqcdcContender is the library go-pq-cdc with the handler of test/rivals.
func pqcdcContender(ctx context.Context, db *base, to destination) (*contender, error) {
	program, err := filepath.Abs(db.pqcdc)
	if err != nil {
		return nil, err
	}
	db.count++
	slot := fmt.Sprintf("pqcdc_%d", db.count)
	if err := db.publish(ctx); err != nil {
		return nil, err
	}
	if err := db.exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot); err != nil {
		return nil, err
	}
	return &contender{log: filepath.Join(db.dir, slot+".log"), reached: db.slotReached(slot), cmd: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, program, "-url", db.url(true), "-slot", slot, "-brokers", strings.Join(db.kafka.Brokers(), ","), "-topic", to.topic,
			"-metrics", fmt.Sprint(11000+db.count%1000))
	}}, nil
}

func (db *base) slotReached(slot string) func(context.Context) (bool, bool, error) {
	return func(ctx context.Context) (bool, bool, error) { return db.reached(ctx, slot) }
}
