package relay

import (
	"testing"
	"time"
)

// The database's clock is known as well as the quickest answer says, until an answer contradicts it.
func TestClock(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type reading struct{ after, took, ahead, off time.Duration } // off: where in the round trip the clock was read, from its middle
	for name, c := range map[string]struct {
		readings []reading
		want     time.Duration
	}{
		"never read":                  {nil, 0},
		"the same":                    {[]reading{{0, 2 * ms, 0, 0}}, 0},
		"ahead":                       {[]reading{{0, 2 * ms, time.Hour, 0}}, time.Hour},
		"behind":                      {[]reading{{0, 2 * ms, -time.Hour, 0}}, -time.Hour},
		"a slow answer says less":     {[]reading{{0, 2 * ms, time.Hour, 0}, {time.Second, time.Second, time.Hour, 400 * ms}}, time.Hour},
		"a quick answer says more":    {[]reading{{0, time.Second, time.Hour, 400 * ms}, {time.Second, 2 * ms, time.Hour, 0}}, time.Hour},
		"the host's clock was set":    {[]reading{{0, 2 * ms, time.Hour, 0}, {time.Second, 20 * ms, -time.Hour, 0}}, -time.Hour},
		"and answers got slower then": {[]reading{{0, 2 * ms, 0, 0}, {time.Second, time.Second, time.Minute, 0}}, time.Minute},
	} {
		var clock dbClock
		now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, r := range c.readings {
			now = now.Add(r.after)
			clock.read(now, now.Add(r.took/2+r.off-r.ahead), now.Add(r.took))
		}
		if got := now.Sub(clock.at(now)); got != c.want {
			t.Errorf("%s: the host is ahead by %v, want %v", name, got, c.want)
		}
	}
}
