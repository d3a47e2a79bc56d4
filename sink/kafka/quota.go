package kafka

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// mostThrottle bounds what a broker may ask for.
const mostThrottle = time.Hour

// quotas remembers which brokers throttle this client. A broker whose quota is used up takes the batch, says how long it takes nothing more, and reads
// nothing from the connection until then. A batch that was written in the meantime would have no answer within the timeout, would be sent again over
// another connection, and would be appended a second time when the broker reads on. Most of the time there is no throttle.
type quotas struct {
	count atomic.Int64
	mu    sync.Mutex
	until map[string]time.Time // by the broker's address
}

// note notes that a broker takes nothing more for so long. It returns until when, zero if the broker does not throttle.
func (q *quotas) note(address string, throttle time.Duration) time.Time {
	if throttle <= 0 {
		return time.Time{}
	}
	now := time.Now()
	until := now.Add(min(throttle, mostThrottle))
	q.mu.Lock()
	defer q.mu.Unlock()
	for other, end := range q.until {
		if !now.Before(end) {
			delete(q.until, other) // The broker may be gone: nobody would ask for it again.
		}
	}
	if until.After(q.until[address]) {
		q.until[address] = until
	}
	q.count.Store(int64(len(q.until)))
	return until
}

// rest is how long a broker takes nothing more.
func (q *quotas) rest(address string) time.Duration {
	if q.count.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	until, throttled := q.until[address]
	if !throttled {
		return 0
	}
	rest := time.Until(until)
	if rest <= 0 {
		delete(q.until, address)
		q.count.Store(int64(len(q.until)))
	}
	return max(rest, 0)
}

// throttled is the error of a batch that was not sent, because its broker takes nothing more for so long.
func (s *Sink) throttled(address string, rest time.Duration) error {
	return sink.Throttled(fmt.Errorf("produce to broker %s: not sent: the quota of this client (client_id %s) is used up, and the broker takes nothing more for %v: "+
		"tailbox waits; to send faster, raise producer_byte_rate or request_percentage",
		address, s.cfg.ClientID, max(rest.Round(time.Millisecond), time.Millisecond)), rest)
}
