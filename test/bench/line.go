package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

const (
	lineRate   = 1000 // messages a second
	lineWarmUp = 2 * time.Second
	lineLasts  = 8 * time.Second
	// steadyWriters take turns in writing at a steady rate.
	steadyWriters = 8
)

// pace is what one run of runLine measured, in milliseconds.
type pace struct{ commit, p50, p99 float64 }

// runLine measures from before the insert until the line of the message was read from the process's output: of a relay that
// deletes the rows, and of a bare reader that prints the payloads. Beside it stands how long the insert itself took.
func runLine(kind string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		figures := map[string][]pace{}
		names := []string{"bare", "relay"}
		if b.relays {
			names = names[1:]
		}
		for round := range b.rounds {
			for i := range names {
				name := names[(round+i)%len(names)]
				p, err := b.line(ctx, kind, name == "bare")
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				figures[name] = append(figures[name], p)
				fmt.Printf("  round %d: %-6s p50 %.2f ms p99 %.2f ms, insert %.2f ms\n", round+1, name, p.p50, p.p99, p.commit)
			}
		}
		for _, name := range names {
			b.table.note(fmt.Sprintf("%s, insert to line at %d/s, %s", kind, lineRate, name),
				fmt.Sprintf("p50 %s ms, p99 %s ms; the insert itself p50 %s ms", paces(figures[name], func(p pace) float64 { return p.p50 }),
					paces(figures[name], func(p pace) float64 { return p.p99 }), paces(figures[name], func(p pace) float64 { return p.commit })), true, "")
		}
		for _, p := range figures["relay"] {
			b.table.measure(kind+", insert to line, p50 in terms of the insert's", true, p.p50/p.commit) // which is slower while the machine is
		}
		if !b.relays {
			b.noteLine(kind, figures)
		}
		return nil
	}
}

// noteLine notes how the relay's latency compares.
func (b *bench) noteLine(kind string, figures map[string][]pace) {
	var over []float64
	for i, p := range figures["relay"] {
		if kind == kindMongoDB {
			over = append(over, p.p50-figures["bare"][i].p50)
		} else {
			over = append(over, p.p50-p.commit)
		}
	}
	if kind == kindMongoDB {
		b.table.note(kind+", relay's p50 beyond the bare reader's", spreadOf(over, "%.2f")+" ms", median(over) <= 2, "<= 2 ms")
		return
	}
	b.table.note(kind+", relay's p50 beyond the insert's", spreadOf(over, "%.2f")+" ms", median(over) <= 3, "<= 3 ms")
}

func paces(ps []pace, of func(pace) float64) string {
	var vs []float64
	for _, p := range ps {
		vs = append(vs, of(p))
	}
	return spreadOf(vs, "%.2f")
}

func (b *bench) line(ctx context.Context, kind string, bare bool) (measured pace, err error) {
	g, err := b.ground(ctx, kind)
	if err != nil {
		return measured, err
	}
	defer func() { err = errors.Join(err, g.drop(ctx)) }()
	r, err := b.relayOn(ctx, g, "delete", "sinks: {out: {kind: stdout}}")
	if err == nil && bare {
		r, err = b.bareOn(ctx, g, 0, "-lines")
	}
	if err != nil {
		return measured, err
	}
	now := time.Now()
	l := &laps{from: now.Add(lineWarmUp + time.Second)}
	p, err := launch(r.cmd(ctx), r.log, l.read)
	if err != nil {
		return measured, err
	}
	defer func() {
		if err = errors.Join(err, p.stop()); err != nil {
			err = fmt.Errorf("%w: %s", err, lastLine(r.log))
		}
	}()
	if _, err := p.wait(ctx, p.reading); err != nil {
		return measured, err
	}
	commits, err := steadily(ctx, g, lineRate, l.from, l.from.Add(lineLasts))
	if err != nil {
		return measured, err
	}
	deadline := time.Now().Add(20 * time.Second)
	for l.count() < len(commits) {
		if time.Now().After(deadline) {
			return measured, fmt.Errorf("%d of %d lines came", l.count(), len(commits))
		}
		pause(10 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return pace{millis(e2e.Quantile(commits, 0.5)), millis(e2e.Quantile(l.all, 0.5)), millis(e2e.Quantile(l.all, 0.99))}, nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// steadily writes so many messages a second until a time, one row a transaction. It returns how long each insert after from took.
func steadily(ctx context.Context, g ground, rate int, from, until time.Time) (took []time.Duration, err error) {
	begin := time.Now().Add(time.Second) // all are connected by then
	var mu sync.Mutex
	errs := make(chan error, steadyWriters)
	for i := range steadyWriters {
		go func() {
			var mine []time.Duration
			err := oneSteady(ctx, g, i, rate, begin, until, func(began time.Time) {
				if began.After(from) {
					mine = append(mine, time.Since(began))
				}
			})
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
			errs <- err
		}()
	}
	for range steadyWriters {
		err = errors.Join(err, <-errs)
	}
	return took, err
}

// oneSteady is one writer. Writers take turns at even intervals: a common tick would make a burst of their rows.
func oneSteady(ctx context.Context, g ground, number, rate int, begin, until time.Time, wrote func(began time.Time)) error {
	w, err := g.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.close(context.WithoutCancel(ctx)) }() // what it wrote is durable
	every := time.Second * steadyWriters / time.Duration(rate)
	pause(time.Until(begin.Add(every * time.Duration(number) / steadyWriters)))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := number; ; n += steadyWriters {
		<-tick.C
		began := time.Now()
		if began.After(until) || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.write(ctx, n, began.UnixNano()); err != nil {
			return err
		}
		wrote(began)
	}
}

// read adds the messages of lines, to the end.
func (l *laps) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		at := time.Now()
		_, rest, ok := bytes.Cut(line, []byte(`"t":`))
		if !ok {
			continue
		}
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexAny(rest, ",}")
		nanos, err := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
		if err == nil {
			l.add(nanos, at)
		}
	}
}
