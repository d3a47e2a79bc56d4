package sqlstore

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// StateDelivered is a state that only stores know: delivered, but the message's row was locked and has still to be dealt
// with.
const StateDelivered checkpoint.State = "delivered"

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
	return p.State == checkpoint.StateRetrying || p.State == checkpoint.StateWaiting || m.AvailableAt.After(m.CommitTime)
}

// OwnIDs gives parked deliveries whose RowID another message has an identity of their own, by their position: ids are used again, after TRUNCATE
// ... RESTART IDENTITY for one. They are sent by their message's id all the same. parkedAt is the position text of what is parked
// already under a key, "" for nothing; nil where the statement that parks looks itself.
func OwnIDs(parks []checkpoint.Parked, parkedAt func(checkpoint.Key) string) []checkpoint.Parked {
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
		if before == "" || samePlace(before, at) {
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

// logDigits is what of a position's text names the log. A message that is read again where the log goes on at another server has
// the rest in common with what was parked.
const logDigits = len("00000000-")

func samePlace(a, b string) bool { return a[min(logDigits, len(a)):] == b[logDigits:] }

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
