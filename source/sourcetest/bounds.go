package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A bounded is a row with a part at its bound or beyond, and what has to become of it.
type bounded struct {
	what    string
	message *outbox.Message
	// class and reason are those of the fault; "" for none.
	class, reason string
}

// boundedLimit is max_message of the case.
const boundedLimit = 2 << 20

// boundedRows are rows at each bound, one byte beyond it, and far beyond it.
func boundedRows() (list []bounded) {
	add := func(what string, class, reason string, change func(*outbox.Message)) {
		m := row(len(list), "g")
		change(m)
		list = append(list, bounded{what, m, class, reason})
	}
	const far, undecodable = 700_000, outbox.FaultUndecodable
	sized := func(part string, bound int, reason string, set func(m *outbox.Message, text string)) {
		for _, n := range []int{bound, bound + 1, far} {
			class := undecodable
			if n == bound {
				class = ""
			}
			add(fmt.Sprintf("%s of %d bytes", part, n), class, reason, func(m *outbox.Message) { set(m, strings.Repeat("x", n)) })
		}
	}
	sized("a type", outbox.MaxIndexed, "may have 1024", func(m *outbox.Message, s string) { m.Type = s })
	sized("a tenant", outbox.MaxIndexed, "may have 1024", func(m *outbox.Message, s string) { m.Tenant = s })
	sized("a key", outbox.MaxGroup, "may have 65536", func(m *outbox.Message, s string) { m.Key = []byte(s) })
	sized("a topic", outbox.MaxGroup, "may have 65536", func(m *outbox.Message, s string) { m.Topic = s })
	sized("a content type", outbox.MaxGroup, "may have 65536", func(m *outbox.Message, s string) { m.ContentType = s })
	sized("a correlation id", outbox.MaxGroup, "may have 65536", func(m *outbox.Message, s string) { m.CorrelationID = s })
	sized("a group", outbox.MaxGroup, "more than 65536 bytes", func(m *outbox.Message, s string) { m.Group = s })
	add("a group that is just indexed", "", "", func(m *outbox.Message) { m.Group = strings.Repeat("y", outbox.MaxIndexed) })
	add("a group that is not", "", "", func(m *outbox.Message) { m.Group = strings.Repeat("y", outbox.MaxIndexed+1) })
	add("the same group again", "", "", func(m *outbox.Message) { m.Group = strings.Repeat("y", outbox.MaxIndexed+1) })
	add("an id of 1024 bytes", "", "", func(m *outbox.Message) { m.ID = strings.Repeat("\u20ac", 341) + "x" })
	add("an id of 1025 bytes", undecodable, "1024", func(m *outbox.Message) { m.ID = strings.Repeat("\u20ac", 341) + "xx" })
	add("an id of 2100 bytes", undecodable, "1024", func(m *outbox.Message) { m.ID = strings.Repeat("\u20ac", 700) })
	headers := func(n, name, value int) func(*outbox.Message) {
		return func(m *outbox.Message) {
			for i := range n {
				m.Headers = append(m.Headers, outbox.Header{Name: fmt.Sprintf("%0*d", name, i), Value: []byte(strings.Repeat("v", value))})
			}
		}
	}
	add("100 headers", "", "", headers(100, 3, 1))
	add("101 headers", undecodable, "more than 100 headers", headers(101, 3, 1))
	add("20,000 headers", undecodable, "more than 100 headers", headers(20_000, 5, 1))
	add("headers of 64 KiB", "", "", headers(64, 24, 1000))
	add("headers of more", undecodable, "more than 65536 bytes", headers(64, 24, 1001))
	add("a header's name of 256 bytes", "", "", headers(1, 256, 1))
	add("a header's name of 257 bytes", undecodable, "may have 256", headers(1, 257, 1))
	add("a header of 700 KB", undecodable, "more than 65536 bytes", headers(1, 3, far))
	large := func(m *outbox.Message) { m.Payload = []byte(strings.Repeat("p", boundedLimit+1)) }
	add("a too large row", outbox.FaultTooLarge, "max_message", large)
	add("a too large row with a long group", outbox.FaultTooLarge, "max_message", func(m *outbox.Message) {
		m.Group = strings.Repeat("z", outbox.MaxGroup)
		large(m)
	})
	for _, n := range []int{outbox.MaxGroup + 1, far} {
		group := strings.Repeat("x", n)
		add(fmt.Sprintf("a too large row with a group of %d bytes", n), undecodable, "more than 65536 bytes", func(m *outbox.Message) {
			m.Group = group
			large(m)
		})
	}
	add("a too large row with a long type", undecodable, "type", func(m *outbox.Message) {
		m.Type = strings.Repeat("x", far)
		large(m)
	})
	add("a too large row with many headers", undecodable, "headers", func(m *outbox.Message) {
		headers(20_000, 1, 1)(m)
		large(m)
	})
	add("a row like others", "", "", func(*outbox.Message) {})
	return list
}

// check compares what a road made of the row.
func (b *bounded) check(t *testing.T, road string, got *outbox.Message) {
	t.Helper()
	class, reason := "", ""
	if got.Fault != nil {
		class, reason = got.Fault.Class, got.Fault.Reason
	}
	if class != b.class || class != "" && !strings.Contains(reason, b.reason) || len(reason) > 2048 {
		t.Errorf("%s: %s: fault %q (%.500s), want %q with %q", road, b.what, class, reason, b.class, b.reason)
	}
	w := b.message
	lane, group := w.Group, w.Group
	if len(group) > outbox.MaxIndexed {
		lane = outbox.StandInGroup(group)
	}
	if len(group) > outbox.MaxGroup {
		group = lane
	}
	if got.Group != lane || got.GroupText() != group {
		t.Errorf("%s: %s: lane %.300q with a group of %d bytes, want %.300q with %d", road, b.what, got.Group, len(got.GroupText()), lane, len(group))
	}
	if wantStandIn := len(w.ID) > outbox.MaxIndexed; outbox.IsStandInID(got.ID) != wantStandIn || !wantStandIn && got.ID != w.ID {
		t.Errorf("%s: %s: id %.100q", road, b.what, got.ID)
	}
	if b.class == "" && (got.Type != w.Type || got.Tenant != w.Tenant || string(got.Key) != string(w.Key) || got.Topic != w.Topic || got.ContentType != w.ContentType || got.CorrelationID != w.CorrelationID ||
		len(got.Headers) != len(w.Headers) || string(got.Payload) != string(w.Payload)) {
		t.Errorf("%s: %s: it was changed", road, b.what)
	}
	for what, n := range map[string]int{"id": len(got.ID) - outbox.MaxIndexed, "type": len(got.Type) - outbox.MaxIndexed, "tenant": len(got.Tenant) - outbox.MaxIndexed,
		"group": len(got.Group) - outbox.MaxIndexed, "key": len(got.Key) - outbox.MaxGroup, "topic": len(got.Topic) - outbox.MaxGroup,
		"content type": len(got.ContentType) - outbox.MaxGroup, "correlation id": len(got.CorrelationID) - outbox.MaxGroup, "headers": len(got.Headers) - outbox.MaxHeaders} {
		if n > 0 {
			t.Errorf("%s: %s: %s is %d beyond its bound", road, b.what, what, n)
		}
	}
}

// testBounds: a row with a part beyond its bound is a message with a fault, which names the part, by whatever road it is read, and those around it
// are as ever. No row stops its reader. Of a group that is too long there is a stand-in, the same in a row that is too large and in one that is not.
func testBounds(t *testing.T, k Kind) {
	wide := table("tailbox", "outbox")
	wide.Wide = true
	r := newStoreRig(t, k, Setup{Tables: []Table{wide}, MaxMessage: boundedLimit})
	list := boundedRows()
	from := r.establish()
	var refs []checkpoint.RowRef
	for i := range list {
		r.insert(list[i].message)
		if id := list[i].message.ID; len(id) <= outbox.MaxIndexed {
			refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: id})
		}
	}
	x := r.read(source.Start{From: from})
	ms, _ := x.messages(len(list))
	x.stop()
	for i, m := range ms {
		list[i].check(t, "the log", m)
	}
	byID := func(road string, got []*outbox.Message, want int) {
		t.Helper()
		nameless := 0
		for _, m := range got {
			if outbox.IsStandInID(m.ID) {
				nameless++
				continue
			}
			i := slices.IndexFunc(list, func(b bounded) bool { return b.message.ID == m.ID })
			list[i].check(t, road, m)
		}
		equal(t, road+": rows", [2]int{len(got), nameless}, [2]int{want, want - len(refs)})
	}
	snap, _ := r.judge(true)
	swept, _ := r.pending(snap, 1)
	byID("a sweep", swept, len(list))
	_ = r.st.Close(r.ctx) // to read all of that may have taken longer than the database leaves a relay's session idle: then it has ended it
	r.open()
	fetched, _, err := r.st.Fetch(r.ctx, refs, outbox.Position{Log: 1, Commit: 5}, fetchAll)
	r.must(err, "fetch")
	byID("a fetch", fetched, len(refs))
	r.boundedParked(list, ms)
}

// boundedParked: what is parked of such rows comes back after the relay was killed: under the same lane, with all of the group.
func (r *rig) boundedParked(list []bounded, ms []*outbox.Message) {
	r.t.Helper()
	for i, m := range ms {
		p := Head("kafka", m, time.Hour)
		if list[i].class != "" {
			p = checkpoint.Parked{Sink: "", Message: m, State: checkpoint.StateDead, Blocks: m.Group != "", LastError: m.Fault.Reason, ErrorClass: m.Fault.Class,
				InTable: m.Fault.Class == outbox.FaultTooLarge}
		}
		r.park(p)
	}
	r.reopen()
	parked, err := r.db.Parked(r.ctx)
	r.must(err, "read what is parked")
	equal(r.t, "parked", len(parked), len(list))
	slices.SortStableFunc(parked, func(a, b checkpoint.Parked) int { return a.Message.Position.Compare(b.Message.Position) })
	long := 0
	for i := range parked {
		got, want := parked[i].Message, ms[i]
		if got.ID != want.ID || got.Group != want.Group || got.GroupText() != want.GroupText() || (got.Fault == nil) != (want.Fault == nil) {
			r.t.Errorf("parked: %s: got id %.80q, lane %.80q and a group of %d bytes, want %.80q, %.80q and %d", list[i].what, got.ID, got.Group,
				len(got.GroupText()), want.ID, want.Group, len(want.GroupText()))
		}
		if got.LongGroup != "" {
			long++
		}
	}
	equal(r.t, "long groups that came back", long, 4)
}
