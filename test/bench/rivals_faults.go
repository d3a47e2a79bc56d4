package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	kafka "github.com/segmentio/kafka-go"
)

const (
	faultGroups  = 64
	faultKills   = 3
	killEvery    = 10 * time.Second
	refusedAfter = 5 * time.Second
	refusedLasts = 20 * time.Second
	outageLasts  = time.Minute
	outageAround = 10 * time.Second // of good answers, before and behind
	restartAfter = time.Second
	patience     = 2 * time.Minute
)

// runFaults does to each rival what happens in production: kill -9, one message that the broker refuses, a minute of 503. Whoever exits is started
// again a second later, as a supervisor would; who is killed, at once.
func runFaults(ctx context.Context, b *bench) error {
	for _, f := range []struct {
		name string
		run  func(context.Context, *bench, *rival) (string, error)
	}{{"kill -9, three times", killed}, {"one message of 3 MiB, which the topic refuses", refused}, {"503 for a minute", outage}} {
		for _, r := range rivals() {
			what, err := f.run(ctx, b, &r)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", f.name, r.name, err)
			}
			if what != "" {
				b.table.note(f.name+": "+r.name, what, true, "")
			}
		}
	}
	return nil
}

// A tally counts what comes, by group and number. It is safe for concurrent use, if each group comes from one goroutine at a time.
type tally struct {
	mu                    sync.Mutex
	seen                  map[[2]int]bool
	newest                [faultGroups]int
	duplicates, overtaken int
}

func newTally() *tally { return &tally{seen: map[[2]int]bool{}} }

// take notes one delivery.
func (t *tally) take(body []byte) {
	var m struct {
		G, N int
	}
	if json.Unmarshal(body, &m) != nil || m.N <= 0 {
		return // the first row of a contender, or the one that is refused
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := [2]int{m.G, m.N}
	switch {
	case t.seen[key]:
		t.duplicates++
		return
	case m.N < t.newest[m.G]:
		t.overtaken++ // its first delivery is behind that of a newer one
	default:
		t.newest[m.G] = m.N
	}
	t.seen[key] = true
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.seen)
}

// others counts those of all groups but group 0.
func (t *tally) others() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.seen {
		if key[0] != 0 {
			n++
		}
	}
	return n
}

func (t *tally) tell(written int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("of %d messages %d lost, %d overtaken, %d duplicates", written, written-len(t.seen), t.overtaken, t.duplicates)
}

// A fault is a run of one contender under a steady load.
type fault struct {
	*base
	c        *contender
	all      *tally
	written  atomic.Int64
	others   atomic.Int64 // written to all groups but group 0
	restarts int
}

func newFault(ctx context.Context, b *bench, r *rival, to destination, all *tally) (*fault, error) {
	db, err := b.outbox(ctx)
	if err != nil {
		return nil, err
	}
	c, err := r.ready(ctx, db, to)
	if err != nil {
		return nil, errors.Join(err, db.drop(ctx))
	}
	return &fault{base: db, c: c, all: all}, nil
}

// supervise keeps the contender running, and kills it at times; it ends with the context.
func (f *fault) supervise(ctx context.Context, kill <-chan time.Time) error {
	for ctx.Err() == nil {
		p, err := launch(f.c.cmd(context.WithoutCancel(ctx)), f.c.log, nil)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			_ = p.stop() // the exit code of a virtual machine that is ended tells nothing
			return nil
		case <-kill:
			if err := p.cmd.Process.Kill(); err != nil {
				return err
			}
			<-p.exited
			continue
		case <-p.exited:
			f.restarts++
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartAfter):
		}
	}
	return nil
}

// write writes rows at a rate for a time, one a transaction. After a while it writes one that the broker refuses, if that is wanted.
func (f *fault) write(ctx context.Context, rate int, lasts, poison time.Duration) error {
	conn, err := pgx.Connect(ctx, f.pg.SocketURL(f.name))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	began := time.Now()
	for n := 0; time.Since(began) < lasts; n++ {
		<-tick.C
		if poison > 0 && time.Since(began) > poison {
			poison = 0
			if _, err := conn.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
				VALUES ('order', '0', 'OrderPlaced', jsonb_build_object('g', 0, 'n', 0, 'x', repeat(md5('x'), 98304)))`); err != nil {
				return err
			}
		}
		group := n % faultGroups
		if _, err := conn.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, 'OrderPlaced',
			jsonb_build_object('g', $2::int, 'n', $3::int))`, fmt.Sprint(group), group, n/faultGroups+1); err != nil {
			return err
		}
		f.written.Add(1)
		if group != 0 {
			f.others.Add(1)
		}
	}
	return nil
}

// consume counts what a topic gets, until the context ends.
func (f *fault) consume(ctx context.Context, topic string) (wait func()) {
	c := newConsumer(f.kafka, topic)
	var consuming sync.WaitGroup
	consuming.Go(func() {
		c.follow(ctx, func(r *kafka.Record, _ time.Time) {
			if body, err := kafka.ReadAll(r.Value); err == nil {
				f.all.take(body)
			}
		})
	})
	return consuming.Wait
}

// during runs a load beside the contender, and waits until all that is awaited has come, or it is in vain.
func (f *fault) during(ctx context.Context, kill <-chan time.Time, done func() bool, load func() error) (drained time.Duration, err error) {
	defer func() { err = errors.Join(err, f.drop(ctx)) }()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.supervise(running, kill) }()
	err = load()
	over := time.Now()
	for err == nil && !done() && time.Since(over) < patience {
		pause(50 * time.Millisecond)
	}
	drained = time.Since(over)
	stop()
	return drained, errors.Join(err, <-ended)
}

func (f *fault) allCame() bool { return f.all.count() >= int(f.written.Load()) }

func (f *fault) othersCame() bool { return f.all.others() >= int(f.others.Load()) }

func killed(ctx context.Context, b *bench, r *rival) (string, error) {
	topic, err := b.topic(partitions)
	if err != nil {
		return "", err
	}
	f, err := newFault(ctx, b, r, destination{topic: topic}, newTally())
	if err != nil {
		return "", err
	}
	reading, stop := context.WithCancel(ctx)
	wait := f.consume(reading, topic)
	kill := time.NewTicker(killEvery)
	defer kill.Stop()
	drained, err := f.during(ctx, kill.C, f.allCame, func() error {
		defer kill.Stop()
		return f.write(ctx, 1000, killEvery*(faultKills+1)-time.Second, 0)
	})
	stop()
	wait()
	return fmt.Sprintf("%s; all there %.1f s after the last was written", f.all.tell(int(f.written.Load())), drained.Seconds()), err
}

func refused(ctx context.Context, b *bench, r *rival) (string, error) {
	topic, err := b.topic(partitions)
	if err != nil {
		return "", err
	}
	f, err := newFault(ctx, b, r, destination{topic: topic}, newTally())
	if err != nil {
		return "", err
	}
	reading, stop := context.WithCancel(ctx)
	wait := f.consume(reading, topic)
	_, err = f.during(ctx, nil, f.othersCame, func() error {
		return f.write(ctx, 200, refusedLasts, refusedAfter)
	})
	stop()
	wait()
	log, readErr := os.ReadFile(f.c.log)
	told := strings.Contains(string(log), "TOO_LARGE") || strings.Contains(string(log), "TooLarge") || strings.Contains(strings.ToLower(string(log)), "too large")
	return fmt.Sprintf("%d of %d messages of other groups delivered, %d times it exited; its log names the refusal: %v", f.all.others(), f.others.Load(), f.restarts, told), errors.Join(err, readErr)
}

func outage(ctx context.Context, b *bench, r *rival) (string, error) {
	if !r.http {
		return "", nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	var down atomic.Bool
	all := newTally()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		all.take(body)
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	defer s.Close()
	f, err := newFault(ctx, b, r, destination{topic: "posted", url: "http://" + l.Addr().String() + "/"}, all)
	if err != nil {
		return "", err
	}
	drained, err := f.during(ctx, nil, f.allCame, func() error {
		starts, ends := time.AfterFunc(outageAround, func() { down.Store(true) }), time.AfterFunc(outageAround+outageLasts, func() { down.Store(false) })
		defer starts.Stop()
		defer ends.Stop()
		return f.write(ctx, 200, outageLasts+2*outageAround, 0)
	})
	return fmt.Sprintf("%s; %d times it exited; all there %.1f s after the last was written", f.all.tell(int(f.written.Load())), f.restarts, drained.Seconds()), err
}
