package poll

import (
	"errors"
	"strconv"

	"github.com/tailbox/tailbox/source/batches"
)

// Barriers are what Await asked for: numbers, as text, up to which everything is to be read. Safe for concurrent use.
type Barriers struct {
	batches.Barriers
	wake chan struct{}
}

// NewBarriers returns none.
func NewBarriers() *Barriers { return &Barriers{wake: make(chan struct{}, 1)} }

// Await adds one. Text that is no number fails the Run that finds it.
func (b *Barriers) Await(text string) {
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		err = errors.New("it is not a number")
	}
	b.Add(text, at, err)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Barriers) woken() <-chan struct{} { return b.wake }
