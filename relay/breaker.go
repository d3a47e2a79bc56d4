package relay

import "time"

// A breaker keeps a sink that cannot be reached from being tried by every lane. It is pure: the time is an argument.
//
// Closed: deliveries flow. After breakerOpens failures in a row, on two lanes if two are active, it opens. Open: nothing is
// sent until the probe time, then one delivery; its success closes the breaker, its failure doubles the wait.
type breaker struct {
	failures int
	lane     *lane // of the failures so far; nil once a second lane failed
	several  bool
	open     bool
	since    time.Time // when it opened
	wait     time.Duration
	probe    time.Time
}

const (
	breakerOpens   = 5
	breakerMinWait = time.Second
	breakerMaxWait = 30 * time.Second
)

// failed counts a delivery that did not reach the sink. others tells whether other lanes of the sink have something to
// send: then a single lane's failures do not open the breaker, for its message may be the cause. It returns true when
// the breaker has just opened.
func (b *breaker) failed(now time.Time, l *lane, others bool) bool {
	if b.open {
		b.wait = min(2*b.wait, breakerMaxWait)
		b.probe = now.Add(b.wait)
		return false
	}
	if b.failures > 0 && b.lane != l {
		b.several = true
	}
	b.failures++
	b.lane = l
	if b.failures < breakerOpens || others && !b.several {
		return false
	}
	*b = breaker{open: true, since: now, wait: breakerMinWait, probe: now.Add(breakerMinWait)}
	return true
}

// answered counts any answer of the sink, good or bad: it can be reached. It returns true when this closes the breaker.
func (b *breaker) answered() bool {
	was := b.open
	*b = breaker{}
	return was
}

// allows tells whether deliveries may be sent, and whether only one, as a probe.
func (b *breaker) allows(now time.Time) (ok, probe bool) {
	if !b.open {
		return true, false
	}
	return !now.Before(b.probe), true
}
