package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

// runMemory drains one large transaction, and a large backlog, within a small bound of memory.
func runMemory(ctx context.Context, b *bench) error {
	for _, test := range []struct {
		name       string
		rows, size int
		table      string
		kafka      bool
	}{
		{"discard, keep, memory: 16MiB, one transaction", b.largest, b.largest, keepTable, false},
		{"discard, delete, memory: 16MiB, one transaction", b.largest, b.largest, deleteTable, false},
		{"discard, mark, memory: 16MiB, one transaction", b.largest, b.largest, markTable, false},
		{"Kafka, keep, memory: 16MiB, one transaction", b.largest, b.largest, keepTable, true},
		{"discard, keep, memory: 16MiB, backlog", b.backlog, perTxn, keepTable, false},
	} {
		d, err := b.memoryOf(ctx, test.rows, test.size, test.table, test.kafka)
		if err != nil {
			return fmt.Errorf("%s: %w", test.name, err)
		}
		b.table.note(fmt.Sprintf("%s of %d rows", test.name, test.rows),
			fmt.Sprintf("%.0f msg/s, at most %.1f MB", d.rate(), float64(d.rss)/1e6), d.rss <= 64e6, "<= 64 MB")
		b.table.measure(test.name+", bytes of memory", true, float64(d.rss))
	}
	return nil
}

func (b *bench) memoryOf(ctx context.Context, rows, size int, table string, kafka bool) (d drain, err error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	sinks, topic := discardSink, "discarded"
	if kafka {
		if topic, err = b.topic(partitions); err != nil {
			return d, err
		}
		sinks = b.kafkaSink("")
	}
	r, err := db.relay(ctx, false, withTopic(table, topic), "memory: 16MiB\n"+sinks)
	if err != nil {
		return d, err
	}
	if err := db.fill(ctx, rows, size, spread); err != nil {
		return d, err
	}
	return db.run(ctx, r, rows)
}

// runIdle watches a relay that has nothing to do.
func runIdle(ctx context.Context, b *bench) (err error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	r, err := db.relay(ctx, false, withTopic(deleteTable, "discarded"), discardSink)
	if err != nil {
		return err
	}
	return db.during(ctx, r, func(pid int) error {
		pause(5 * time.Second)
		before, err := e2e.ReadUsage(pid)
		if err != nil {
			return err
		}
		const lasts = 30 * time.Second
		pause(lasts)
		after, err := e2e.ReadUsage(pid)
		if err != nil {
			return err
		}
		share := 100 * (after.CPU - before.CPU).Seconds() / lasts.Seconds()
		b.table.measure("idle, bytes of memory", true, float64(after.RSS))
		b.table.measure("idle, processor", true, share)
		b.table.note("idle", fmt.Sprintf("%.1f MB", float64(after.RSS)/1e6), after.RSS < 30e6, "< 30 MB")
		b.table.note("idle", fmt.Sprintf("%.2f%% of a processor", share), share < 0.5, "< 0.5%")
		return nil
	})
}

// during runs a process while work is done, once it reads from its slot.
func (db *base) during(ctx context.Context, r runner, work func(pid int) error) (err error) {
	cmd := r.cmd(ctx)
	stop, _, err := start(cmd, r.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	deadline := time.Now().Add(30 * time.Second)
	for {
		active, _, err := db.reached(ctx, r.slot)
		if err != nil {
			return err
		}
		if active {
			return work(cmd.Process.Pid)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not read from slot %s: %s", r.slot, lastLine(r.log))
		}
		pause(10 * time.Millisecond)
	}
}
