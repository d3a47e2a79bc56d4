package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	busyWriters = 8
	busyWarmUp  = 2 * time.Second
	busyLasts   = 6 * time.Second
)

// busy is what one run of runWriters measured.
type busy struct {
	rate   float64
	locks  int
	behind time.Duration // what the relay took to catch up once the writers had stopped
}

// runWriters measures how many rows writers get written, each in a transaction of its own and as fast as they can, beside a relay that
// deletes them, in terms of what they get written beside a bare reader of the same log.
func runWriters(kind string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		figures := map[string][]busy{}
		names := []string{"bare", "relay"}
		if b.relays {
			names = names[1:]
		}
		for round := range b.rounds {
			for i := range names {
				name := names[(round+i)%len(names)]
				f, err := b.beside(ctx, kind, name == "bare")
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				figures[name] = append(figures[name], f)
				fmt.Printf("  round %d: beside the %-6s %6.0f rows/s, %d lock errors, it caught up in %v\n", round+1, name, f.rate, f.locks, f.behind.Round(time.Millisecond))
			}
		}
		for _, f := range figures["relay"] {
			b.table.measure(fmt.Sprintf("%s, %d writers beside the relay, rows/s", kind, busyWriters), false, f.rate)
		}
		if !b.relays {
			b.noteWriters(kind, figures)
		}
		return nil
	}
}

func (b *bench) noteWriters(kind string, figures map[string][]busy) {
	var bare, relay, ratios, behind []float64
	locks := 0
	for i, f := range figures["relay"] {
		other := figures["bare"][i].rate
		bare, relay, ratios = append(bare, other), append(relay, f.rate), append(ratios, f.rate/other)
		behind = append(behind, f.behind.Seconds())
		locks += f.locks
	}
	name := fmt.Sprintf("%s, %d writers", kind, busyWriters)
	b.table.note(name+", beside a bare reader", spreadOf(bare, "%.0f")+" rows/s", true, "")
	b.table.note(name+", beside the relay, delete", spreadOf(relay, "%.0f")+" rows/s, it caught up in "+spreadOf(behind, "%.2f")+" s", true, "")
	b.table.note(name+", relay over bare reader", spreadOf(ratios, "%.2f"), median(ratios) >= 0.85, ">= 0.85")
	b.table.note(name+", deadlocks and lock waits", fmt.Sprint(locks), locks == 0, "0")
}

func (b *bench) beside(ctx context.Context, kind string, bare bool) (f busy, err error) {
	g, err := b.ground(ctx, kind)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, g.drop(ctx)) }()
	r, err := b.relayOn(ctx, g, "delete", discardSink)
	if err == nil && bare {
		r, err = b.bareOn(ctx, g, 0)
	}
	if err != nil {
		return f, err
	}
	p, err := launch(r.cmd(ctx), r.log, nil)
	if err != nil {
		return f, err
	}
	defer func() {
		if err = errors.Join(err, p.stop()); err != nil {
			err = fmt.Errorf("%w: %s", err, lastLine(r.log))
		}
	}()
	if _, err := p.wait(ctx, p.reading); err != nil {
		return f, err
	}
	if f.rate, f.locks, err = b.writeBusily(ctx, kind, g); err != nil || bare {
		return f, err
	}
	end, err := g.end(ctx)
	if err != nil {
		return f, err
	}
	began := time.Now()
	w, err := g.writer(ctx) // whoever has this row has all before it
	if err != nil {
		return f, err
	}
	if err := errors.Join(w.write(ctx, 0, 0), w.close(ctx)); err != nil {
		return f, err
	}
	err = p.untilSettled(ctx, g, r, end)
	f.behind = time.Since(began)
	return f, err
}

// writeBusily has writers write as fast as they can. After a warm-up it counts.
func (b *bench) writeBusily(ctx context.Context, kind string, g ground) (rate float64, locks int, err error) {
	var counting atomic.Bool
	var stop atomic.Bool
	var rows, waits atomic.Int64
	errs := make(chan error, busyWriters)
	var ready sync.WaitGroup
	ready.Add(busyWriters)
	for i := range busyWriters {
		go func() {
			w, err := g.writer(ctx)
			ready.Done()
			if err != nil {
				errs <- err
				return
			}
			for n := i; !stop.Load() && err == nil && ctx.Err() == nil; n += busyWriters {
				err = w.write(ctx, n, 0)
				switch {
				case err == nil && counting.Load():
					rows.Add(1)
				case err != nil && b.servers[kind].locked(err):
					waits.Add(1)
					err = nil
				}
			}
			errs <- errors.Join(err, ctx.Err(), w.close(context.WithoutCancel(ctx)))
		}()
	}
	ready.Wait()
	pause(busyWarmUp)
	counting.Store(true)
	began := time.Now()
	pause(busyLasts)
	counting.Store(false)
	took := time.Since(began)
	stop.Store(true)
	for range busyWriters {
		err = errors.Join(err, <-errs)
	}
	return float64(rows.Load()) / took.Seconds(), int(waits.Load()), err
}
