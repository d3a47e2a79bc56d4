package sourcetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// testContent: all that an application wrote is in the message, by whatever road it was read.
func testContent(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	at := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)
	full := &outbox.Message{ID: EventID(1), Type: "t\u00ffp\u20ac", Topic: "t\u00f6pic.\U0001F600", Group: "gr:\u00e4\\'\"%_", Key: []byte("k\u00e9y"),
		Payload: []byte("\x00\xff\x10 {\"a\" : 1.0}\r\n"), Headers: []outbox.Header{{Name: "a", Value: []byte("q\"\u00e9\\\n")}, {Name: "b"},
			{Name: "c", Value: []byte{}}, {Name: "dd", Value: []byte("two")}},
		Tenant: "\u79df", ContentType: "text/plain; charset=\"utf-8\"", IdempotencyKey: "idem", CorrelationID: "corr", Priority: -3,
		MaxAttempts: 9, AvailableAt: at, CreatedAt: at.Add(-time.Hour)}
	bare := &outbox.Message{ID: EventID(2), Type: "bare", Payload: []byte{}}
	empty := &outbox.Message{ID: EventID(3), Type: "empty", Payload: []byte("p"), Group: "g", Headers: []outbox.Header{}}
	spaces := &outbox.Message{ID: EventID(4), Type: " t ", Topic: " ", Group: " g ", Payload: []byte("  p  ")}
	want := []*outbox.Message{full, bare, empty, spaces}
	r.byEveryRoad(want)
}

// byEveryRoad writes messages and reads them from the log, by a sweep and by a look at the table, and compares.
func (r *rig) byEveryRoad(want []*outbox.Message) {
	r.t.Helper()
	from := r.establish()
	for _, m := range want {
		r.insert(m)
	}
	x := r.read(source.Start{From: from})
	ms, _ := x.messages(len(want))
	x.stop()
	r.compare("the log", want, ms)
	snap, sweep := r.judge(true)
	if !sweep {
		r.t.Fatal("Judge finds nothing to sweep")
	}
	swept, _ := r.pending(snap, 1)
	r.compare("a sweep", want, swept)
	var refs []checkpoint.RowRef
	for _, m := range want {
		refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: m.ID})
	}
	fetched, parkedAt, err := r.st.Fetch(r.ctx, refs, outbox.Position{Log: 1, Commit: 5}, fetchAll)
	r.must(err, "fetch")
	if len(parkedAt) > 0 && len(parkedAt) != len(fetched) {
		r.t.Errorf("fetched %d messages, parked at %d", len(fetched), len(parkedAt))
	}
	r.compare("a fetch", want, fetched)
}

// compare compares messages as they were written into the first table with what was read, but for what the log gives them.
func (r *rig) compare(road string, want, got []*outbox.Message) {
	r.t.Helper()
	r.compareIn(r.tables[0], road, want, got)
}

func (r *rig) compareIn(table Table, road string, want, got []*outbox.Message) {
	r.t.Helper()
	if len(got) != len(want) {
		r.t.Fatalf("%s gave %d messages, want %d: %s", road, len(got), len(want), ids(got))
	}
	got = slices.Clone(got)
	place := map[string]int{}
	for i, m := range want {
		place[m.ID] = i
	}
	slices.SortStableFunc(got, func(a, b *outbox.Message) int { return place[a.ID] - place[b.ID] })
	for i, w := range want {
		g, w := *got[i], *w
		w.Table = table.String()
		g.Position, g.CommitTime, g.Txn = outbox.Position{}, time.Time{}, 0
		w.Binary = got[0].Binary // it is said of the column, whose type is the kind's
		if !w.CreatedAt.IsZero() && !g.CreatedAt.Equal(w.CreatedAt) {
			r.t.Errorf("%s: message %s was created at %s, want %s", road, Short(w.ID), g.CreatedAt, w.CreatedAt)
		}
		if !g.AvailableAt.Equal(w.AvailableAt) {
			r.t.Errorf("%s: message %s is available at %s, want %s", road, Short(w.ID), g.AvailableAt, w.AvailableAt)
		}
		g.CreatedAt, w.CreatedAt, g.AvailableAt, w.AvailableAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if (g.Payload == nil) != (w.Payload == nil) {
			r.t.Errorf("%s: message %s has payload %v, want %v: NULL is not empty", road, Short(w.ID), g.Payload, w.Payload)
		}
		if len(g.Headers) == 0 && len(w.Headers) == 0 {
			g.Headers, w.Headers = nil, nil
		}
		if len(w.Key) == 0 && len(g.Key) == 0 {
			if g.Key != nil {
				r.t.Errorf("%s: message %s has an empty key, want none", road, Short(w.ID))
			}
			g.Key, w.Key = nil, nil
		}
		if a, b := describe(&g), describe(&w); a != b {
			r.t.Errorf("%s: message %s:\n got %.2000s\nwant %.2000s", road, Short(w.ID), a, b)
		}
	}
}

// testPayloads: a payload of any type arrives as it was written, by whatever road; NULL is not empty.
func testPayloads(t *testing.T, k Kind) {
	var tables []Table
	for i, typ := range slices.Sorted(maps.Keys(k.Payloads)) {
		tables = append(tables, table("tailbox", fmt.Sprintf("outbox%d", i)))
		tables[i].PayloadType = typ
	}
	if len(tables) == 0 {
		t.Fatal("the kind names no types of payloads")
	}
	for _, tables := range k.apart(tables) {
		testPayloadsOf(t, k, tables)
	}
}

func testPayloadsOf(t *testing.T, k Kind, tables []Table) {
	r := newStoreRig(t, k, Setup{Tables: tables})
	from := r.establish()
	n := 0
	want, refs := make([][]*outbox.Message, len(tables)), make([][]checkpoint.RowRef, len(tables))
	for i, table := range r.tables {
		for _, p := range k.Payloads[table.PayloadType] {
			m := row(n, "g")
			m.Payload = p.Written
			r.must(r.app.Insert(r.ctx, table, m), "insert %q as %s", p.Written, table.PayloadType)
			m.Payload = p.Read
			want[i], refs[i] = append(want[i], m), append(refs[i], checkpoint.RowRef{Table: table.String(), ID: m.ID})
			n++
		}
	}
	ms, _ := r.read(source.Start{From: from}).messages(n)
	for i, table := range r.tables {
		r.compareIn(table, "the log, type "+table.PayloadType, want[i], of(table, ms))
		fetched, _, err := r.st.Fetch(r.ctx, refs[i], outbox.Position{Log: 1, Commit: 5}, fetchAll)
		r.must(err, "fetch")
		r.compareIn(table, "a fetch, type "+table.PayloadType, want[i], fetched)
	}
}

// apart are the tables that one source can read together.
func (k *Kind) apart(tables []Table) (sets [][]Table) {
	if !k.Polls {
		return [][]Table{tables}
	}
	for _, one := range tables {
		sets = append(sets, []Table{one})
	}
	return sets
}

// of are those of the messages that are of a table.
func of(table Table, ms []*outbox.Message) (found []*outbox.Message) {
	for _, m := range ms {
		if m.Table == table.String() {
			found = append(found, m)
		}
	}
	return found
}

// testGroups: the group is what the shape says; no group is none, and not one group of all those messages.
func testGroups(t *testing.T, k Kind) {
	joined := table("tailbox", "joined")
	joined.Columns.Group = []string{"tenant", "key"}
	shaped, own := []*outbox.Message{{ID: EventID(1), Type: "t", Topic: "order", Key: []byte("7"), Payload: []byte("{}")},
		{ID: EventID(2), Type: "t", Topic: "a:b", Key: []byte("c"), Payload: []byte("{}")}}, []*outbox.Message{}
	for n, m := range []*outbox.Message{{Tenant: "acme", Key: []byte("7")}, {Tenant: "acme"}, {Key: []byte("7")}, {}} {
		m.ID, m.Type, m.Payload = EventID(3+n), "t", []byte{}
		own = append(own, m)
	}
	var groups []string
	for _, tables := range k.apart([]Table{table("debezium", "outbox"), joined}) {
		r := newRig(t, k, Setup{Tables: tables})
		from := r.establish()
		n := 0
		for _, table := range r.tables {
			written := shaped
			if table.Shape != "debezium" {
				written = own
			}
			for _, m := range written {
				r.must(r.app.Insert(r.ctx, table, m), "insert")
				n++
			}
		}
		ms, _ := r.read(source.Start{From: from}).messages(n)
		for _, m := range ms {
			groups = append(groups, m.Group)
		}
		if m := ms[0]; m.ID == EventID(1) && (m.Topic != "order" || string(m.Key) != "7") {
			t.Errorf("topic %q, key %q, want the aggregate's type and id", m.Topic, m.Key)
		}
	}
	equal(t, "groups", groups, []string{"order:7", "a:b:c", "acme:7", "", "", ""})
}

// testReferences: a part that no column holds comes from a header or from the payload, by each road to a message.
func testReferences(t *testing.T, k Kind) {
	referring := table("tailbox", "referring")
	referring.Columns.Type, referring.Columns.Key, referring.Columns.Group = "", "", nil
	referring.References = []outbox.Reference{{Part: "type", Header: "event-type"}, {Part: "group", Header: "part"}, {Part: "key", Path: []string{"order", "id"}}}
	referring.Ungrouped, referring.Headers = []string{"*"}, outbox.HeaderFilter{Deny: []string{"part", `*\*`}}
	r := newStoreRig(t, k, Setup{Tables: []Table{referring}})
	from := r.establish()
	headers := func(typ, part string) []outbox.Header {
		return []outbox.Header{{Name: "event-type", Value: []byte(typ)}, {Name: `App\Stamp`, Value: []byte("x")}, {Name: "part", Value: []byte(part)}}
	}
	written := []*outbox.Message{
		{ID: EventID(1), Headers: headers("Paid", "7"), Payload: []byte(`{"other": [1, {"id": 0}], "order": {"id": 42}}`)},
		{ID: EventID(2), Headers: headers("Sent", "*"), Payload: []byte(`{"order": {"id": "x\u0041"}}`)},
		{ID: EventID(3), Payload: []byte(`not json`)},
	}
	var refs []checkpoint.RowRef
	for _, m := range written {
		r.insert(m)
		refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: m.ID})
	}
	ms, _ := r.read(source.Start{From: from}).messages(len(written))
	fetched, _, err := r.st.Fetch(r.ctx, refs, outbox.Position{Log: 1, Commit: 5}, fetchAll)
	r.must(err, "fetch")
	for road, ms := range map[string][]*outbox.Message{"the log": ms, "a fetch": fetched} {
		var got []string
		for _, m := range ms {
			fault := ""
			if m.Fault != nil {
				fault = m.Fault.Class
			}
			got = append(got, fmt.Sprintf("%s %q %q %q %d %s", m.Type, m.Group, m.Key, m.Payload, len(m.Headers), fault))
		}
		equal(t, road, got, []string{
			fmt.Sprintf(`Paid "7" "42" %q 1 `, written[0].Payload), fmt.Sprintf(`Sent "" "xA" %q 1 `, written[1].Payload),
			fmt.Sprintf(` "" "" %q 0 %s`, written[2].Payload, outbox.FaultUndecodable),
		})
	}
}

// testBig: large payloads arrive whole, and alone in their batch where they have to.
func testBig(t *testing.T, k Kind) {
	r := newRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	from := r.establish()
	sizes := []int{10, 1 << 20, 300 << 10, 255 << 10, 256 << 10, 256<<10 + 1, 0, 3 << 20, 1}
	pattern := func(n int) []byte { return bytes.Repeat([]byte("0123456789\x00\xfe\xff"), n/13+1)[:n] }
	r.must(r.app.Begin(r.ctx), "begin")
	for i, n := range sizes {
		m := row(i, "g")
		m.Payload = pattern(n)
		r.insert(m)
	}
	r.must(r.app.Commit(r.ctx), "commit")
	ms, _ := r.read(source.Start{From: from}).messages(len(sizes))
	for i, n := range sizes {
		if m := ms[i]; m.ID != EventID(i) || m.Fault != nil || !bytes.Equal(m.Payload, pattern(n)) {
			t.Errorf("message %d is %s with %d bytes and fault %+v, want %d bytes", i, Short(m.ID), len(m.Payload), m.Fault, n)
		}
	}
}

// testTooLarge: a message above max_message is emitted as such, without its payload; those around it are as ever.
func testTooLarge(t *testing.T, k Kind) {
	const limit = 200_000
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}, MaxMessage: limit})
	from := r.establish()
	sizes := []int{10, limit + 1, limit - 1000, 10 * limit, 1}
	var refs []checkpoint.RowRef
	for i, n := range sizes {
		m := row(i, "g")
		m.Payload = bytes.Repeat([]byte{0x5a}, n)
		r.insert(m)
		refs = append(refs, checkpoint.RowRef{Table: r.tables[0].String(), ID: m.ID})
	}
	x := r.read(source.Start{From: from})
	ms, _ := x.messages(len(sizes))
	x.stop()
	check := func(road string, ms []*outbox.Message) {
		t.Helper()
		if len(ms) != len(sizes) {
			t.Fatalf("%s gave %s", road, ids(ms))
		}
		for i, n := range sizes {
			m := ms[i]
			if m.ID != EventID(i) || m.Type != "Counted" || m.Group != "g" || m.Table != r.tables[0].String() {
				t.Errorf("%s: message %d: what can be read is missing: id %s type %q group %q", road, i, m.ID, m.Type, m.Group)
			}
			switch {
			case n <= limit && (m.Fault != nil || len(m.Payload) != n):
				t.Errorf("%s: message %d has %d bytes and fault %+v, want %d bytes", road, i, len(m.Payload), m.Fault, n)
			case n > limit && (m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil || m.Fault.Reason == ""):
				t.Errorf("%s: message %d has %d bytes and fault %+v, want a fault", road, i, len(m.Payload), m.Fault)
			case n > limit && strings.Contains(m.Fault.Reason, "ZZ"):
				t.Errorf("%s: the reason holds payload bytes: %.200s", road, m.Fault.Reason)
			}
		}
	}
	check("the log", ms)
	snap, _ := r.judge(true)
	swept, _ := r.pending(snap, 1)
	check("a sweep", swept)
	fetched, _, err := r.st.Fetch(r.ctx, refs, outbox.Position{Log: 1, Commit: 5}, fetchAll)
	r.must(err, "fetch")
	check("a fetch", fetched)
}

// testIDTypes: an id of any type that a column may have is one text for ever: in the log, in the table, in what is settled.
func testIDTypes(t *testing.T, k Kind) {
	var tables []Table
	for i, typ := range slices.Sorted(maps.Keys(k.IDs)) {
		tables = append(tables, table("tailbox", fmt.Sprintf("outbox%d", i)))
		tables[i].IDType = typ
	}
	if len(tables) == 0 {
		t.Fatal("the kind names no types of ids")
	}
	for _, tables := range k.apart(tables) {
		testIDTypesOf(t, k, tables)
	}
}

func testIDTypesOf(t *testing.T, k Kind, tables []Table) {
	r := newStoreRig(t, k, Setup{Tables: tables})
	from := r.establish()
	total := 0
	for _, table := range r.tables {
		for _, text := range k.IDs[table.IDType] {
			m := row(total, "g")
			m.ID = text
			r.must(r.app.Insert(r.ctx, table, m), "insert id %q as %s", text, table.IDType)
			total++
		}
	}
	ms, _ := r.read(source.Start{From: from}).messages(total)
	r.samePending("pending", ms, func(Table, int, int) bool { return true })
	// The first one of each table is parked while another delivery of it is on its way; the last one is dead.
	var firsts, lasts []*outbox.Message
	for _, table := range r.tables {
		in := of(table, ms)
		var got []string
		for _, m := range in {
			got = append(got, m.ID)
		}
		equal(t, "ids in the log, type "+table.IDType, got, k.IDs[table.IDType])
		firsts, lasts = append(firsts, in[0]), append(lasts, in[len(in)-1])
	}
	for i := range lasts {
		r.park(Head("kafka", firsts[i], 0), Dead("audit", lasts[i], true))
	}
	r.untilVisible(lasts...)
	r.samePending("pending beside parked ones", ms, func(_ Table, i, n int) bool { return i < n-1 })
	snap, _ := r.judge(false)
	swept, at := r.pending(snap, 1)
	equal(t, "swept", len(swept), total-len(tables))
	for i, m := range swept {
		first := slices.ContainsFunc(firsts, func(f *outbox.Message) bool { return f.Table == m.Table && f.ID == m.ID })
		if want := map[bool]string{true: "[kafka]", false: "[]"}[first]; fmt.Sprint(at[i]) != want {
			t.Errorf("swept %q of %s is parked at %v, want %s", m.ID, m.Table, at[i], want)
		}
	}
	var cs []checkpoint.Change
	for i := range lasts {
		cs = append(cs, Delivered("kafka", firsts[i]), Delivered("audit", lasts[i]))
	}
	r.settle(checkpoint.Settlement{Changes: cs})
	r.untilVisible(ms...)
	r.samePending("pending after all are settled", ms, func(Table, int, int) bool { return false })
	for _, table := range r.tables {
		found, err := r.db.Rows(r.ctx, table)
		r.must(err, "read rows")
		for _, row := range found {
			if row.Status != "delivered" {
				t.Errorf("row %q of type %s is %s", row.ID, table.IDType, row.Status)
			}
		}
	}
}

// samePending compares the list of pending rows with those of the messages that pick names: the i-th of n of their table.
func (r *rig) samePending(what string, ms []*outbox.Message, pick func(table Table, i, n int) bool) {
	r.t.Helper()
	got := r.pendingRows(7)
	for _, table := range r.tables {
		in := of(table, ms)
		var want, names []string
		for i, m := range in {
			if pick(table, i, len(in)) {
				want = append(want, m.ID)
			}
		}
		for _, ref := range got {
			if ref.Table == table.String() {
				names = append(names, ref.ID)
			}
		}
		slices.Sort(want)
		slices.Sort(names)
		equal(r.t, what+", type "+table.IDType, names, want)
	}
}

// testNoID: a row whose id is empty is no message without a name: it has an id of its place, the same each time it is
// read, and a fault.
func testNoID(t *testing.T, k Kind) {
	if k.TextID == "" {
		t.Skip("this kind names no type of ids that may be empty: Kind.TextID")
	}
	outboxTable := table("tailbox", "outbox")
	outboxTable.IDType = k.TextID
	r := newRig(t, k, Setup{Tables: []Table{outboxTable}})
	from := r.establish()
	nameless := row(0, "g")
	nameless.ID = ""
	r.insert(nameless)
	r.insert(row(1, "g"))
	x := r.read(source.Start{From: from})
	ms, _ := x.messages(2)
	x.stop()
	again, _ := r.read(source.Start{From: from}).messages(2)
	same(t, ms, again)
	snap, _ := r.judge(true)
	swept, _ := r.pending(snap, 1)
	if len(swept) != 2 {
		t.Fatalf("swept %s", ids(swept))
	}
	for road, m := range map[string]*outbox.Message{"the log": ms[0], "a sweep": swept[0]} {
		if !outbox.IsStandInID(m.ID) || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || m.Group != "g" || m.Type != "Counted" {
			t.Errorf("%s: a row without an id is %+v with fault %+v", road, *m, m.Fault)
		}
	}
	// A sweep that is repeated gives it the same name, so that it is not parked twice.
	r.insert(row(2, "g"))
	snap, _ = r.judge(true)
	later, _ := r.pending(snap, 2)
	if len(later) != 3 || !slices.ContainsFunc(later, func(m *outbox.Message) bool { return m.ID == swept[0].ID }) {
		t.Errorf("swept again as %s, want %s among them", ids(later), swept[0].ID)
	}
}
