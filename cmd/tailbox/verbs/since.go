package verbs

import (
	"errors"
	"flag"
	"strconv"
	"strings"
	"time"
)

// A moment is a flag that takes a time, or how long ago it was. It is zero if the flag is not given.
type moment struct{ at time.Time }

func (m *moment) flag(fs *flag.FlagSet, name, usage string) {
	fs.Func(name, usage, func(text string) (err error) {
		m.at, err = parseMoment(text, time.Now())
		return err
	})
}

var errMoment = errors.New("must be a duration such as 30m, 24h or 7d, or a time such as 2026-01-31 or 2026-01-31T08:00:00Z")

// parseMoment reads a moment. A time without a zone is the local one.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e5 {
			return now.Add(-time.Duration(n * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errMoment
}
