package store

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// MaxErrorText bounds last_error, in bytes.
const MaxErrorText = 4096

// Alone reports whether a delivery is a lane of its own: no group, or a time of its own.
func Alone(p *checkpoint.Parked) bool {
	m := p.Message
	if m.Group == "" {
		return true
	}
	if p.Blocks {
		return false
	}
	return p.State == checkpoint.StateRetrying || p.State == checkpoint.StateWaiting || m.Scheduled()
}

// OwnIDs gives a parked delivery an id of its own, made of its position, if another message is parked under the same RowID: tables use ids again, for
// example after TRUNCATE ... RESTART IDENTITY. The sink still gets the message's own id. parkedAt returns what is parked under a key; parkedAt is nil if
// the parking statement does this look-up. sameCommits: if the log goes on elsewhere, a transaction keeps its ordinal.
func OwnIDs(parks []checkpoint.Parked, sameCommits bool, parkedAt func(checkpoint.Key) Place) []checkpoint.Parked {
	places := make(map[checkpoint.Key]Place, len(parks))
	copied := false
	for i := range parks {
		key, at := parks[i].Key(), parks[i].Message.Position.String()
		if outbox.IsStandInID(key.ID) {
			continue
		}
		before, seen := places[key]
		if !seen && parkedAt != nil {
			before = parkedAt(key)
		}
		if before.Position == "" {
			before.Position = at
		}
		places[key] = before
		if before.holds(at, sameCommits) {
			continue
		}
		if !copied {
			parks, copied = slices.Clone(parks), true
		}
		parks[i].Original = outbox.StandInID(before.standIn(at))
	}
	return parks
}

// TableID returns the id of the message's row in the user's table, if it can have one.
func TableID(p *checkpoint.Parked) string {
	if id := p.RowID(); p.Original == "" || !outbox.IsStandInID(id) {
		return id
	}
	return p.Message.ID // see OwnIDs
}

// Offsets in a position's text, %08x-%016x-%08x: logDigits is where the transaction begins, commitDigits where it ends.
const (
	logDigits    = len("00000000-")
	commitDigits = len("00000000-0000000000000000")
)

// A Place is where a parked delivery has its message from.
type Place struct {
	Position string // its text; "" if nothing is parked
	// Detached is ParkedRow.Detached of the delivery.
	Detached bool
}

// holds reports whether a message at another position is the parked one, if both have the same id. It is if the transaction is the same. If not
// sameCommits, a message may get another transaction when the log goes on elsewhere (at another server, or counted in another way), so transactions of
// different logs count as the same. But if sameCommits, the parked delivery is detached and the log is another one, the message is another one: numbers of
// rows may have begun anew.
func (p Place) holds(at string, sameCommits bool) bool {
	if len(p.Position) < commitDigits || len(at) < commitDigits {
		return true
	}
	sameCommit := p.Position[logDigits:commitDigits] == at[logDigits:commitDigits]
	switch {
	case p.Position[:logDigits] == at[:logDigits]:
		return sameCommit
	case !sameCommits:
		return true
	}
	return sameCommit && !p.Detached
}

// standIn is the place that a message's own id is made of. It is the same whenever the message is read again, as far as positions tell.
func (p Place) standIn(at string) string {
	if p.Position[logDigits:commitDigits] == at[logDigits:commitDigits] {
		return at
	}
	return at[logDigits:]
}

// FirstOfLanes reports for each delivery whether it is the first blocking one of its lane, and comes before those of its group at the sink "". It
// looks at these deliveries only. It is false for a delivery that does not block, or is a lane of its own.
func FirstOfLanes(parks []checkpoint.Parked) []bool {
	lowest := make(map[checkpoint.Lane]int, len(parks))
	for i := range parks {
		p := &parks[i]
		if !p.Blocks || Alone(p) {
			continue
		}
		lane := checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}
		if j, ok := lowest[lane]; !ok || p.Message.Position.Compare(parks[j].Message.Position) < 0 {
			lowest[lane] = i
		}
	}
	first := make([]bool, len(parks))
	for lane, i := range lowest {
		j, ok := lowest[checkpoint.Lane{Group: lane.Group}]
		first[i] = !ok || j == i || parks[i].Message.Position.Compare(parks[j].Message.Position) < 0
	}
	return first
}

// ErrorText makes a text that any database accepts out of an error: it replaces NUL and invalid UTF-8, and bounds the length.
func ErrorText(s string) string {
	if len(s) > MaxErrorText {
		s = s[:MaxErrorText]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1 {
			s = s[:len(s)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
