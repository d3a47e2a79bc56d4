package outbox_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

// TestSetGroup: a group is its own lane while it can be indexed, and goes with the message as long as it may be one.
func TestSetGroup(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]struct{ indexed, whole, over bool }{
		0: {true, true, false}, 1: {true, true, false}, outbox.MaxIndexed: {true, true, false}, outbox.MaxIndexed + 1: {false, true, false},
		outbox.MaxGroup: {false, true, false}, outbox.MaxGroup + 1: {false, false, true}, 10 << 20: {false, false, true},
	} {
		var m outbox.Message
		group := strings.Repeat("g", n)
		over := m.SetGroup(group)
		if over != want.over || (m.Group == group) != want.indexed || (m.GroupText() == group) != want.whole || len(m.Group) > outbox.MaxIndexed {
			t.Errorf("%d bytes: lane of %d bytes, group of %d, over %t", n, len(m.Group), len(m.GroupText()), over)
		}
	}
	// Nobody reads more of a group in a row that is too large.
	long := strings.Repeat("g", outbox.MaxGroup+1)
	if outbox.StandInGroup(long) != outbox.StandInGroup(long+"x") || outbox.StandInGroup(long) == outbox.StandInGroup(long[1:]) {
		t.Error("the lane of a group beyond its bound is that of its beginning")
	}
}

// FuzzBounds: whatever an application writes, what lists, logs and indexes get of it is bounded, and as valid as it was.
func FuzzBounds(f *testing.F) {
	f.Add("type", "tenant", "topic", "key", "group", 1)
	f.Add(strings.Repeat("\u00fc", 600), "\xff", strings.Repeat("t", 70_000), "", strings.Repeat("\u20ac", 500), 100)
	f.Fuzz(func(t *testing.T, typ, tenant, topic, key, group string, times int) {
		repeat := func(s string) string { return strings.Repeat(s, times&0x1f+1) }
		m := outbox.Message{Type: repeat(typ), Tenant: repeat(tenant), Topic: repeat(topic), Key: []byte(repeat(key))}
		was := m
		over, overGroup := m.Bound(), m.SetGroup(repeat(group))
		if len(m.Type) > outbox.MaxIndexed || len(m.Tenant) > outbox.MaxIndexed || len(m.Topic) > outbox.MaxGroup || len(m.Key) > outbox.MaxGroup ||
			len(m.Group) > outbox.MaxIndexed || len(m.LongGroup) > outbox.MaxGroup {
			t.Errorf("a part of %d, %d, %d, %d and %d bytes is beyond its bound", len(m.Type), len(m.Tenant), len(m.Topic), len(m.Key), len(m.Group))
		}
		if utf8.ValidString(was.Type) && !utf8.ValidString(m.Type) || utf8.ValidString(group) && !utf8.ValidString(m.Group) {
			t.Errorf("type %q, lane %q", m.Type, m.Group)
		}
		if over == nil && (m.Type != was.Type || m.Tenant != was.Tenant || m.Topic != was.Topic || string(m.Key) != string(was.Key)) || !overGroup && m.GroupText() != repeat(group) {
			t.Error("what is within its bounds was changed")
		}
		if over != nil && over.Why == "" || m.Bound() != nil {
			t.Errorf("cut once, %+v, it is still beyond its bounds", over)
		}
		if s := outbox.Shorten(repeat(typ)); len(s) > 240 || len(repeat(typ)) <= 200 && s != repeat(typ) {
			t.Errorf("shortened to %d bytes", len(s))
		}
	})
}
