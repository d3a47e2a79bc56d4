package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// byPartition is a sink of one topic with partitions: that of a message is what its id begins with.
type byPartition struct{ answering }

func (byPartition) Destination(d *sink.Delivery) sink.Destination {
	return sink.Destination{Name: "topic", Partition: int32(d.Message.ID[0] - '0')}
}

// yard is a store of parked deliveries that have no group, each with the time when it is due.
type yard struct {
	shelf
	mu     sync.Mutex
	rows   map[string]*checkpoint.Parked
	due    map[string]time.Time
	guilty []string // those that spent more than the attempt that every first failure costs
}

func newYard() *yard {
	y := &yard{rows: map[string]*checkpoint.Parked{}, due: map[string]time.Time{}}
	y.shelf.settle = y.settled
	y.shelf.due = func([]string) (found []checkpoint.Parked) {
		y.mu.Lock()
		defer y.mu.Unlock()
		for id, p := range y.rows {
			if p.State != checkpoint.StateDead && !time.Now().Before(y.due[id]) && len(found) < 100 {
				found = append(found, *p)
			}
		}
		return found
	}
	return y
}

func (y *yard) settled(in *checkpoint.Settlement) *checkpoint.Settled {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range in.Park {
		p := in.Park[i]
		y.rows[p.Message.ID], y.due[p.Message.ID] = &p, time.Now().Add(p.NextAttempt)
		if p.Attempts > 1 {
			y.guilty = append(y.guilty, p.Message.ID)
		}
	}
	for _, c := range in.Changes {
		if c.Attempts > 1 {
			y.guilty = append(y.guilty, c.Key.ID)
		}
		row := y.rows[c.Key.ID]
		row.State, row.Attempts, row.Tries, row.Failed = c.State, c.Attempts, c.Tries, c.Failed
		if y.due[c.Key.ID] = time.Now().Add(c.NextAttempt); c.Delivered {
			delete(y.rows, c.Key.ID)
		}
	}
	return saved(in)
}

func (y *yard) left() (parked int, guilty []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.rows), y.guilty
}

// A partition that cannot be reached, of a topic whose others can, costs its messages one attempt at most, however long that lasts; nor
// does it keep the log from being read. When it is back, they arrive.
func TestUnreachedPartitionIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 1200
		began, back := time.Now(), make(chan struct{})
		store := newYard()
		var mu sync.Mutex
		arrived := map[byte]int{}
		done := make(chan struct{})
		to := byPartition{answering{func(_ context.Context, ds []*sink.Delivery) []error {
			at := ds[0].Message.ID[0]
			if at == '1' && !closed(back) {
				return []error{sink.Unreachable(errors.New("too few replicas are in sync"))}
			}
			mu.Lock()
			defer mu.Unlock()
			if arrived[at]++; arrived['1'] == seconds {
				close(done)
			}
			return nil
		}}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			for i := range seconds {
				b := messages(2)
				for j, m := range b.Messages {
					m.ID, m.Group, m.Position.Commit, m.Payload = fmt.Sprint(j, " ", i), "", uint64(i+2), make([]byte, 20<<10)
				}
				b.Resume = source.Resume(fmt.Sprint(i))
				if err := emit(ctx, b); err != nil {
					return err
				}
				<-time.After(time.Second)
			}
			if took := time.Since(began); took > 2*seconds*time.Second {
				t.Errorf("the log was read in %v", took)
			}
			close(back)
			<-ctx.Done()
			return nil
		}}
		runUntil(t, relayWithin(t, 4<<20, src, to, store, 0), done, 3*time.Hour, "the partition's messages")
		if n, guilty := store.left(); len(guilty) > 0 || arrived['0'] != seconds {
			t.Errorf("%d are parked, %d spent an attempt (%.40v), %d of %d arrived in the other partition", n, len(guilty), guilty, arrived['0'], seconds)
		}
	})
}

// A message that cannot be delivered while others of its partition can is rejected in the end. If the others are of another
// partition, nothing shows that the message is the cause.
func TestPoisonOfAPartition(t *testing.T) {
	t.Parallel()
	for others, guilty := range map[string]bool{"1": true, "0": false} {
		t.Run("others in "+others, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { poisonOfAPartition(t, others, guilty) })
		})
	}
}

func poisonOfAPartition(t *testing.T, others string, guilty bool) {
	store := newYard()
	to := byPartition{answering{func(_ context.Context, ds []*sink.Delivery) []error {
		if strings.HasSuffix(ds[0].Message.ID, "poison") {
			return []error{sink.Unreachable(errors.New("connection lost"))}
		}
		return nil
	}}}
	done := make(chan struct{})
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		for i := range 600 {
			b := messages(1)
			m := b.Messages[0]
			m.ID, m.Group, m.Position.Commit = fmt.Sprint(others, " ", i), "", uint64(i+2)
			if i == 0 {
				m.ID = "1 poison"
			}
			b.Resume = source.Resume(fmt.Sprint(i))
			if err := emit(ctx, b); err != nil {
				return err
			}
			<-time.After(300 * time.Millisecond)
		}
		close(done)
		<-ctx.Done()
		return nil
	}}
	runUntil(t, relayWith(t, src, to, store, 0), done, time.Hour, "the log is read")
	n, spent := store.left()
	if n != 1 || (len(spent) > 0) != guilty {
		t.Errorf("%d parked, attempts spent: %v; want 1, and %t", n, len(spent), guilty)
	}
}

// bySubject is a sink of so many destinations that all of them share one.
type bySubject struct{ answering }

func (bySubject) Destination(*sink.Delivery) sink.Destination {
	return sink.Destination{Name: "(others)", Shared: true}
}

// Messages to destinations that nobody has made keep none of those waiting that share the name with them.
func TestSharedDestinationHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for _, refusal := range []func(error) error{sink.Misconfigured, sink.Rejected} {
		synctest.Test(t, func(t *testing.T) { sharedDestinationHoldsNobodyUp(t, refusal) })
	}
}

func sharedDestinationHoldsNobodyUp(t *testing.T, refusal func(error) error) {
	const seconds, bad = 300, 20
	store, done := newYard(), make(chan struct{})
	var mu sync.Mutex
	var slowest time.Duration
	tries, arrived := 0, 0
	to := bySubject{answering{func(_ context.Context, ds []*sink.Delivery) []error {
		mu.Lock()
		defer mu.Unlock()
		m := ds[0].Message
		if strings.HasPrefix(m.ID, "bad") {
			tries++
			return []error{refusal(errors.New("no stream takes this subject"))}
		}
		slowest = max(slowest, time.Since(m.CommitTime))
		if arrived++; arrived == seconds {
			close(done)
		}
		return nil
	}}}
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		for i := range seconds {
			b := messages(1)
			if i == 0 {
				b = messages(1 + bad)
			}
			for j, m := range b.Messages {
				if m.ID, m.Group, m.Position.Commit = fmt.Sprint("good ", i), "", uint64(i+2); j > 0 {
					m.ID = fmt.Sprint("bad ", j)
				}
			}
			b.Resume = source.Resume(fmt.Sprint(i))
			if err := emit(ctx, b); err != nil {
				return err
			}
			<-time.After(20 * time.Second)
		}
		<-ctx.Done()
		return nil
	}}
	runUntil(t, relayWith(t, src, to, store, 0), done, 3*time.Hour, "the good messages")
	if parked, _ := store.left(); slowest > time.Second || parked != bad || tries > bad*(seconds*20/25+20) {
		t.Errorf("a good message took %v, %d are parked of %d, which were tried %d times", slowest, parked, bad, tries)
	}
	t.Logf("slowest %v, %d tries", slowest, tries)
}

// Messages to destinations that nobody has made do not stay in memory, where what follows them in the log would wait for room.
func TestSharedDestinationLeavesMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const batches = 40
		store, done := newYard(), make(chan struct{})
		to := bySubject{answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if ds[0].Message.Group == "good" {
				close(done)
				return nil
			}
			return []error{sink.Misconfigured(errors.New("no stream takes this subject"))}
		}}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			for i := range batches {
				b := messages(50)
				for _, m := range b.Messages {
					m.Group, m.Position.Commit = fmt.Sprint(i, m.ID), uint64(i+2)
				}
				if b.Resume = source.Resume(fmt.Sprint(i)); i == batches-1 {
					b.Messages[49].Group = "good"
				}
				if err := emit(ctx, b); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}}
		began := time.Now()
		runUntil(t, relayWithin(t, 64<<10, src, to, store, 0), done, time.Hour, "the good message")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the good message took %v", took)
		}
	})
}
