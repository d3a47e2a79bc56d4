package poll

import (
	"fmt"
	"strconv"
	"sync"
)

// Barriers are what Await asked for: numbers, as text, up to which everything is to be read. Safe for concurrent use.
type Barriers struct {
	mu   sync.Mutex
	list []barrier
	wake chan struct{}
}

type barrier struct {
	text string
	at   uint64
	err  error
}

// NewBarriers returns none.
func NewBarriers() *Barriers { return &Barriers{wake: make(chan struct{}, 1)} }

// Await adds one. Text that is no number fails the Run that finds it.
func (b *Barriers) Await(text string) {
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		err = fmt.Errorf("await barrier %q: it is not a number", text)
	}
	b.mu.Lock()
	b.list = append(b.list, barrier{text, at, err})
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Barriers) woken() <-chan struct{} { return b.wake }

// highest is the highest number asked for; 0 for none.
func (b *Barriers) highest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var n uint64
	for i := range b.list {
		n = max(n, b.list[i].at)
	}
	return n
}

// passed removes and returns the first barrier at or below a number.
func (b *Barriers) passed(at uint64) (text string, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.list {
		if x.err != nil {
			return "", false, x.err
		}
		if x.at <= at {
			b.list = append(b.list[:i], b.list[i+1:]...)
			return x.text, true, nil
		}
	}
	return "", false, nil
}

// forget drops all: nobody waits for them after a Run.
func (b *Barriers) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = nil
}
