package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/test/e2e"
)

const (
	latencyRate   = 2000 // messages a second
	latencyWarmUp = 3 * time.Second
	latencyLasts  = 15 * time.Second
	// harnessMemory bounds the heap of this process while it consumes and measures. It collects nothing before that: who is measured would wait for it.
	harnessMemory = 4 << 30 // bytes; a run takes some 2 GiB
)

// runLatency measures from before the insert until a consumer of the topic has the message, for a bare reader that produces
// and for a relay that deletes the rows: the consumer waits for both alike, so that the difference is the relay's. It also compares the processor time
// that a message costs each of them.
func runLatency(ctx context.Context, b *bench) error {
	type figures struct{ p50, p99, micros, rate []float64 }
	all := map[string]*figures{}
	const bare, relay = "bare reader + Produce", "Kafka, delete"
	names := []string{bare, relay}
	if b.relays {
		names = names[1:]
	}
	for round := range b.rounds {
		for i := range names {
			name := names[(round+i)%len(names)]
			tr, err := b.latency(ctx, name == bare)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			f := all[name]
			if f == nil {
				f = &figures{}
				all[name] = f
			}
			p50, p99 := e2e.Quantile(tr.laps, 0.5), e2e.Quantile(tr.laps, 0.99)
			f.p50, f.p99 = append(f.p50, p50.Seconds()*1000), append(f.p99, p99.Seconds()*1000)
			f.micros = append(f.micros, tr.micros)
			f.rate = append(f.rate, float64(len(tr.laps))/latencyLasts.Seconds())
			fmt.Printf("  round %d: %-24s p50 %v p99 %v %.0f µs processor a message of %d\n", round+1, name, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond),
				tr.micros, len(tr.laps))
		}
	}
	for _, name := range names {
		f := all[name]
		b.table.note("latency, "+name, fmt.Sprintf("p50 %s ms, p99 %s ms, %s µs processor a message, at %s msg/s", spreadOf(f.p50, "%.2f"),
			spreadOf(f.p99, "%.2f"), spreadOf(f.micros, "%.0f"), spreadOf(f.rate, "%.0f")), true, "")
	}
	b.table.measure("latency to Kafka, p50", true, all[relay].p50...)
	b.table.measure("latency to Kafka, p99", true, all[relay].p99...)
	b.table.measure("steady to Kafka, µs processor", true, all[relay].micros...)
	if b.relays {
		return nil
	}
	var p50, p99, micros []float64
	for i := range b.rounds {
		p50 = append(p50, all[relay].p50[i]/all[bare].p50[i])
		p99 = append(p99, all[relay].p99[i]/all[bare].p99[i])
		micros = append(micros, all[relay].micros[i]/all[bare].micros[i])
	}
	b.table.note("latency, relay over bare reader", fmt.Sprintf("p50 %s, p99 %s, processor %s", spreadOf(p50, "%.2f"), spreadOf(p99, "%.2f"),
		spreadOf(micros, "%.2f")), true, "")
	return nil
}

func (b *bench) latency(ctx context.Context, bare bool) (tr *trickle, err error) {
	topic, err := b.topic(partitions)
	if err != nil {
		return nil, err
	}
	db, err := b.newBase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	r, err := db.relay(ctx, false, withTopic(deleteTable, topic), b.kafkaSink(""))
	if err != nil {
		return nil, err
	}
	if bare {
		if r, err = db.bareReader(ctx, false, topic); err != nil {
			return nil, err
		}
		plain := r.cmd
		r.cmd = func(ctx context.Context) *exec.Cmd {
			cmd := plain(ctx)
			cmd.Args = append(cmd.Args, "-eager", "-end", "")
			return cmd
		}
	}
	err = db.during(ctx, r, func(pid int) error {
		tr, err = db.steady(ctx, topic, pid)
		return err
	})
	return tr, err
}

// A trickle is what a steady load of one row a transaction showed.
type trickle struct {
	laps   []time.Duration // from before each insert until its message had come
	micros float64         // microseconds of processor time that a message cost the process
	ended  e2e.Usage       // what the process had used at its end
}

// steady has the process pid carry a steady load, and measures its processor time meanwhile.
func (db *base) steady(ctx context.Context, topic string, pid int) (*trickle, error) {
	began, err := e2e.ReadUsage(pid)
	if err != nil {
		return nil, err
	}
	laps, err := db.lapsOf(ctx, topic)
	if err != nil {
		return nil, err
	}
	ended, err := e2e.ReadUsage(pid)
	if err != nil {
		return nil, err
	}
	written := float64(latencyRate) * (latencyWarmUp + latencyLasts).Seconds()
	return &trickle{laps, float64((ended.CPU - began.CPU).Microseconds()) / written, ended}, nil
}

// lapsOf writes at a steady rate, one row a transaction, and measures at the consumer what was written after the warm-up.
func (db *base) lapsOf(ctx context.Context, topic string) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(harnessMemory))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l := &laps{from: time.Now().Add(latencyWarmUp)}
	c := newConsumer(db.kafka, topic)
	if err := c.skip(ctx); err != nil { // to read what is there would take processor time from those who are measured
		return nil, err
	}
	var consuming sync.WaitGroup
	consuming.Go(func() { c.follow(ctx, l.take) })
	inserts, failed := steadily(ctx, &pgGround{db}, latencyRate, l.from, l.from.Add(latencyLasts))
	deadline := time.Now().Add(20 * time.Second)
	for failed == nil && l.count() < len(inserts) {
		if time.Now().After(deadline) {
			failed = fmt.Errorf("%d of %d messages came", l.count(), len(inserts))
		}
		pause(10 * time.Millisecond)
	}
	cancel()
	consuming.Wait()
	return l.all, failed
}

// laps are the times from before an insert until its message has come.
type laps struct {
	from time.Time // what was written before does not count

	mu  sync.Mutex
	all []time.Duration
}

func (l *laps) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// add adds a message, which holds the time before its insert in nanoseconds.
func (l *laps) add(nanos int64, at time.Time) {
	if began := time.Unix(0, nanos); began.After(l.from) {
		l.mu.Lock()
		l.all = append(l.all, at.Sub(began))
		l.mu.Unlock()
	}
}

// take adds a record that a fetch brought.
func (l *laps) take(r *kafka.Record, at time.Time) {
	text, err := kafka.ReadAll(r.Value)
	if err != nil {
		return
	}
	var body struct {
		T int64 `json:"t"`
	}
	if json.Unmarshal(text, &body) == nil {
		l.add(body.T, at)
	}
}
