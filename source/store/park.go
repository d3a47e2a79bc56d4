package store

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// MaxErrorText bounds last_error, in bytes.
const MaxErrorText = 4096

// Alone tells whether a delivery is a lane of its own: no group, or a time of its own.
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

// OwnIDs gives parked deliveries whose RowID another message has an identity of their own, by their position: ids are used again, after TRUNCATE
// ... RESTART IDENTITY for one. They are sent by their message's id all the same. parkedAt is the position text of what is parked
// already under a key, "" for nothing; nil where the statement that parks looks itself. sameCommits: a transaction keeps its ordinal where the log
// goes on elsewhere.
func OwnIDs(parks []checkpoint.Parked, sameCommits bool, parkedAt func(checkpoint.Key) string) []checkpoint.Parked {
	places := make(map[checkpoint.Key]string, len(parks))
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
		if before == "" || samePlace(before, at, sameCommits) {
			places[key] = cmp.Or(before, at)
			continue
		}
		places[key] = before
		if !copied {
			parks, copied = slices.Clone(parks), true
		}
		parks[i].Original = outbox.StandInID(at[logDigits:])
	}
	return parks
}

// TableID is the id of the message's row in the user's table, where it can have one.
func TableID(p *checkpoint.Parked) string {
	if id := p.RowID(); p.Original == "" || !outbox.IsStandInID(id) {
		return id
	}
	return p.Message.ID // see OwnIDs
}

// Where a position's text has what, %08x-%016x-%08x: the log, and the transaction in it.
const (
	logDigits    = len("00000000-")
	commitDigits = len("00000000-0000000000000000")
)

// samePlace tells whether what has one id is one message by two positions' texts. One transaction has an id but once, whatever number its rows
// have. In a log that goes on elsewhere (at another server, or counted in another way) a message that is read again has the same
// transaction, or, where each server numbers its own, nothing in common with before: only sameCommits tells that it is another one.
func samePlace(a, b string, sameCommits bool) bool {
	if len(a) < commitDigits || len(b) < commitDigits {
		return true
	}
	return a[logDigits:commitDigits] == b[logDigits:commitDigits] || !sameCommits && a[:logDigits] != b[:logDigits]
}

// FirstOfLanes tells for each delivery whether none of the others blocks before it: in its own lane, or in its group at
// the sink "".
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

// ErrorText makes a text out of an error that any database takes: what is no UTF-8, and NUL, is replaced, and the length
// is bounded.
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
