package relay

import (
	"errors"
	"time"

	"github.com/tailbox/tailbox/source"
)

// awayEvery is how often a table that does not exist is looked for.
const awayEvery = 250 * time.Millisecond

// An absence is that of a configured table, which is waited for for source.AwayFor. The zero value is ready.
type absence struct{ since time.Time }

// mayEnd tells whether a term that ended with err is to be followed by another one, for the table may be there by then. Loaded: it
// had found all its tables at first.
func (a *absence) mayEnd(err error, loaded bool, took time.Duration, now time.Time) bool {
	if !errors.Is(err, source.ErrNoTable) {
		a.since = time.Time{}
		return false
	}
	if a.since.IsZero() || loaded && took > source.AwayFor {
		a.since = now
	}
	return now.Sub(a.since) < source.AwayFor
}
