package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/source"
)

const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
	// repeatBackoff is the longest pause before deliveries that could not be settled are sent again.
	repeatBackoff = 30 * time.Second
)

// An ending is what pacing.after needs to know about a term that has ended.
type ending struct {
	took time.Duration
	// sent: a delivery was started. durable: something was settled.
	sent, durable bool
	// loaded: the relay's state was loaded, and so all tables were there.
	loaded bool
}

// A pacing tells how long to wait between terms that end by an error. The zero value is ready.
type pacing struct{ next time.Duration }

// after returns the pause after a term. If a term sends messages and settles nothing, for example because the database's disk is full, the next one
// sends them again. So pauses grow until a term settles something, even if terms last long. A term that sent nothing has succeeded if it lasted.
func (p *pacing) after(t ending) time.Duration {
	repeats := t.sent && !t.durable
	if t.durable || !repeats && t.took > maxBackoff {
		p.next = 0
	}
	wait := max(p.next, minBackoff)
	most := maxBackoff
	if repeats {
		most = repeatBackoff
	}
	p.next = max(min(2*wait, most), wait)
	if !repeats { // nothing is repeated by connecting early
		wait = min(wait, maxBackoff)
	}
	return wait
}

// awayEvery is how often a table that does not exist is looked for.
const awayEvery = 250 * time.Millisecond

// missingTable tracks since when a configured table has been missing. The relay starts again for source.AwayFor. The zero value is ready.
type missingTable struct{ since time.Time }

// retryTerm reports whether another term follows one that ended with err, because the table may be there by then. loaded: the term found all its
// tables at first.
func (m *missingTable) retryTerm(err error, loaded bool, took time.Duration, now time.Time) bool {
	if !errors.Is(err, source.ErrNoTable) {
		m.since = time.Time{}
		return false
	}
	if m.since.IsZero() || loaded && took > source.AwayFor {
		m.since = now
	}
	return now.Sub(m.since) < source.AwayFor
}
