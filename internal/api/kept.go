package api

import (
	"context"
	"sync"
	"time"
)

// keptMost is how old an answer may be that looks at very many rows.
const keptMost = 10 * time.Second

// A kept is the last answer to each of some questions that look at very many rows. One question is asked at a time. Nobody changes an answer.
type kept[T any] struct {
	// age is for how long an answer is kept, by the time that it took.
	age     func(took time.Duration) time.Duration
	turn    chan struct{}
	mu      sync.Mutex
	answers map[string]keptAnswer[T]
	// fresh: until then no answer is kept.
	fresh time.Time
}

type keptAnswer[T any] struct {
	answer T
	until  time.Time
}

func newKept[T any](age func(took time.Duration) time.Duration) *kept[T] {
	return &kept[T]{age: age, turn: make(chan struct{}, 1), answers: map[string]keptAnswer[T]{}}
}

// young returns an answer that is still kept.
func (k *kept[T]) young(question string, now time.Time) (answer T, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.answers[question]
	if !ok || !now.Before(found.until) || now.Before(k.fresh) {
		return answer, false
	}
	return found.answer, true
}

func (k *kept[T]) keep(question string, answer T, began, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[question] = keptAnswer[T]{answer, began.Add(min(keptMost, k.age(now.Sub(began))))}
}

// refresh has each question of the next seconds asked anew: something was asked for whose effect people want to see.
func (k *kept[T]) refresh(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = now.Add(keptMost)
}

// askOnce returns the kept answer to a question, or asks it when its turn comes.
func askOnce[T any](ctx context.Context, s *server, k *kept[T], question string, ask func(context.Context) (T, error)) (answer T, err error) {
	answer, ok := k.young(question, time.Now())
	if ok {
		return answer, nil
	}
	err = s.askIn(ctx, k.turn, queryTime, func(ctx context.Context) (err error) {
		began := time.Now()
		if answer, ok = k.young(question, began); ok {
			return nil // whoever had the turn before has asked the same
		}
		if answer, err = ask(ctx); err == nil {
			k.keep(question, answer, began, time.Now())
		}
		return err
	})
	return answer, err
}
