package sourcetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// A Business is a table of the application's that feedback writes to.
type Business struct {
	// Feedback says for each outcome what adds a line to the table: id, outcome, type as a whole number, sink, attempt, error or
	// receipt. It fails where the type is no number.
	Feedback outbox.Feedback
	// Make makes the table.
	Make func(ctx context.Context, db Database) error
	// Lock locks, in the open transaction of a connection, what the line of a message would be added to.
	Lock func(ctx context.Context, c Conn, id string) error
	// Told reads it: id outcome type sink attempt error, in any order.
	Told func(ctx context.Context, db Database) ([]string, error)
}

// withFeedback is a table whose messages tell the business table.
func (k *Kind) withFeedback(t Table) Table {
	t.Feedback = k.Business.Feedback
	return t
}

// told reads what the business table was told since it was read last.
func (r *rig) told(seen *[]string) string {
	r.t.Helper()
	lines, err := r.k.Business.Told(r.ctx, r.db)
	r.must(err, "read the business table")
	var fresh []string
	for _, line := range lines {
		if !slices.Contains(*seen, line) {
			id, rest, _ := strings.Cut(line, " ")
			fresh = append(fresh, Short(id)+" "+strings.Join(strings.Fields(rest), " "))
		}
	}
	slices.Sort(fresh)
	*seen = lines
	return strings.Join(fresh, ", ")
}

// typed is message n, whose type is a number.
func (r *rig) typed(n int, group string) *outbox.Message {
	m := r.msg(n, group)
	m.Type = "7"
	return m
}

// outcome is a Change that is the outcome of an attempt.
func outcome(c checkpoint.Change, m *outbox.Message) checkpoint.Change {
	c.Message = m
	return c
}

func toldRow(m *outbox.Message, parked bool) checkpoint.Row {
	row := RowOf(m, parked)
	row.Message = m
	return row
}

// testFeedback: business rows are told each outcome in the transaction that settles it, and nothing else.
func testFeedback(t *testing.T, k Kind) {
	for _, on := range []outbox.OnDelivered{outbox.Delete, outbox.Mark, outbox.Keep} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("tailbox", "outbox").with(on))}})
			r.must(k.Business.Make(r.ctx, r.db), "make the business table")
			var seen []string
			step := func(what, want string, s checkpoint.Settlement) {
				t.Helper()
				r.settle(s)
				equal(t, what, r.told(&seen), want)
			}
			m := make([]*outbox.Message, 12)
			for i := range m {
				group := "g"
				if i > 3 {
					group = ""
				}
				m[i] = r.typed(i, group)
				r.insert(m[i])
			}
			row := toldRow(m[0], false)
			row.Receipt = "kafka: offset=1"
			step("delivered", "0 delivered 7 0 kafka: offset=1, 4 delivered 7 0", checkpoint.Settlement{Rows: []checkpoint.Row{row, toldRow(m[4], false)}})
			step("parked", "1 retrying 7 kafka 1 boom, 3 dead 7 audit 15 bad", checkpoint.Settlement{
				Park: []checkpoint.Parked{Head("kafka", m[1], 0), Follower("kafka", m[2]), Dead("audit", m[3], true)},
				Rows: []checkpoint.Row{toldRow(m[1], true), toldRow(m[2], true), toldRow(m[3], true)}})
			step("put back untried", "", checkpoint.Settlement{Changes: []checkpoint.Change{Retried("kafka", m[1], 1, 0)}})
			step("failed again", "1 retrying 7 kafka 2 again", checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Retried("kafka", m[1], 2, 0), m[1])}})
			step("delivered by the poller", "1 delivered 7 0", checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Delivered("kafka", m[1]), m[1])}})
			step("dead", "2 dead 7 kafka 15 bad", checkpoint.Settlement{Changes: []checkpoint.Change{outcome(died(m[2], true), m[2])}})
			r.ask(checkpoint.VerbReplay, checkpoint.Selection{All: true, Sink: "kafka"})
			equal(t, "replayed", r.told(&seen), "")
			step("delivered after a replay", "2 delivered 7 0", checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Delivered("kafka", m[2]), m[2])}})
			r.ask(checkpoint.VerbDrop, checkpoint.Selection{All: true})
			equal(t, "dropped", r.told(&seen), "")
			// One of two sinks: the message is delivered with the other one's, when its row is settled too.
			step("before the row", "5 retrying 7 a 1 boom", checkpoint.Settlement{Park: []checkpoint.Parked{Head("a", m[5], 0)}})
			step("one of two", "", checkpoint.Settlement{Changes: []checkpoint.Change{outcome(Delivered("a", m[5]), m[5])}})
			step("both", "5 delivered 7 0", checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(m[5], true)}})
		})
	}
}

// testFeedbackSuperseded: what newer messages supersede is dead, though no settlement holds it.
func testFeedbackSuperseded(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("debezium", "outbox"))}})
	r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	var seen []string
	one, two, three := r.typed(1, "g"), r.typed(2, "g"), r.typed(3, "g")
	r.parkWhole(Head("kafka", one, 0), Follower("kafka", two), Follower("kafka", three))
	equal(t, "parked", r.told(&seen), "1 retrying 7 kafka 1 boom")
	c := outcome(Retried("kafka", one, 2, 0), one)
	c.Supersede = true
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
	lines := strings.Split(r.told(&seen), ", ")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, " retrying ") })
	var starts []string
	for _, line := range lines {
		starts = append(starts, strings.Join(strings.Fields(line)[:4], " "))
	}
	equal(t, "superseded", strings.Join(starts, ", "), "1 dead 7 kafka, 2 dead 7 kafka")
}

// testFeedbackFails: a statement that fails, for one message or for all, costs nothing but itself: the others are done, and
// everything is settled.
func testFeedbackFails(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("tailbox", "outbox"))}})
	var seen []string
	const n = 250
	settle := func(first int, failing ...int) {
		t.Helper()
		s := checkpoint.Settlement{Park: []checkpoint.Parked{Head("kafka", r.msg(first+n, "h"), 0)}}
		for i := first; i < first+n; i++ {
			m := r.typed(i, "")
			if slices.Contains(failing, i-first) {
				m.Type = "poison"
			}
			r.insert(row(i, ""))
			s.Rows = append(s.Rows, toldRow(m, false))
		}
		saved := false
		s.Checkpoint = func([]int) *checkpoint.Checkpoint {
			saved = true
			return &checkpoint.Checkpoint{SourceID: "s", Resume: "here", Log: 1}
		}
		out := r.settle(s)
		equal(t, "settled", *out, checkpoint.Settled{Saved: true})
		equal(t, "a checkpoint is asked for", saved, true)
		rows, err := r.db.Rows(r.ctx, r.tables[0])
		r.must(err, "read rows")
		rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Status == "delivered" && row.Delivered })
		equal(t, "rows that are not settled", len(rows), 0)
	}
	settle(1000) // without the table
	r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	settle(2000, 0, 120, 249)
	lines := strings.Split(r.told(&seen), ", ")
	equal(t, "lines of the others", len(lines), n-3)
	settle(3000)
	equal(t, "lines of all", len(strings.Split(r.told(&seen), ", ")), n)
	loaded := r.reopen()
	equal(t, "position", string(loaded.Checkpoint.Resume), "here")
	equal(t, "parked", len(strings.Split(r.parked(), ", ")), 3)
}

// testFeedbackLater: what is not settled yet is not told yet: rows that are locked, and those of messages whose last parked
// delivery has left.
func testFeedbackLater(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("tailbox", "outbox"))}})
	r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	var seen []string
	one, two := r.typed(1, "g"), r.typed(2, "h")
	r.insert(one, two)
	r.parkWhole(Head("kafka", two, 0))
	equal(t, "parked", r.told(&seen), "2 retrying 7 kafka 1 boom")
	other := r.conn()
	r.must(other.Begin(r.ctx), "begin")
	r.must(other.Update(r.ctx, r.tables[0], one, two), "update")
	out := r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(one, false)}, Changes: []checkpoint.Change{outcome(Delivered("kafka", two), two)}})
	equal(t, "locked rows", out.Invisible, []int{0})
	equal(t, "told of locked rows", r.told(&seen), "")
	r.must(other.Commit(r.ctx), "commit")
	lines := ""
	r.until("the rows to be dealt with", func() bool {
		r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(one, false)}})
		r.due("kafka")
		if fresh := r.told(&seen); fresh != "" {
			lines = strings.TrimPrefix(lines+", "+fresh, ", ")
		}
		return strings.Contains(r.rows(), "1 delivered") && strings.Contains(r.rows(), "2 delivered")
	})
	// Rows that are free are settled again and again above: what counts is the message whose delivery was parked.
	equal(t, "told of the parked one", strings.Count(lines, "2 delivered 7 0"), 1)
	if !strings.Contains(lines, "1 delivered 7 0") {
		t.Errorf("told: %s, want the row that was locked as well", lines)
	}
}

// testFeedbackFenced: whoever has lost the lock tells business rows nothing, as it settles nothing.
func testFeedbackFenced(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("tailbox", "outbox"))}})
	r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	var seen []string
	one := r.typed(1, "g")
	r.insert(one)
	s := &checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(one, false)}}
	r.must(k.Kill(r.ctx, r.db, r.st), "end the session")
	if _, err := r.st.Settle(r.ctx, s); err == nil {
		t.Error("a session that has ended settles")
	}
	equal(t, "told", r.told(&seen), "")
	equal(t, "rows", r.rows(), "1 pending 0")
	_ = r.st.Close(r.ctx) // it may say that the session is gone
	r.takeOver()
	r.settle(*s)
	equal(t, "told by the next session", r.told(&seen), "1 delivered 7 0")
}

// testFeedbackMeetsLocks: what an application holds locked in its business table is waited for a moment only: the messages are
// settled without being told, and those that come later are told again.
func testFeedbackMeetsLocks(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{k.withFeedback(table("tailbox", "outbox"))}})
	r.must(k.Business.Make(r.ctx, r.db), "make the business table")
	var seen []string
	one, two := r.typed(1, ""), r.typed(2, "")
	r.insert(one, two)
	other := r.conn()
	r.must(other.Begin(r.ctx), "begin")
	r.must(k.Business.Lock(r.ctx, other, one.ID), "lock the business table")
	equal(t, "settled", *r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(one, false)}}), checkpoint.Settled{})
	r.must(other.Rollback(r.ctx), "roll back")
	equal(t, "told of what was locked", r.told(&seen), "")
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{toldRow(two, false)}})
	equal(t, "told afterwards", r.told(&seen), "2 delivered 7 0")
	equal(t, "rows", r.rows(), "1 delivered 1 !, 2 delivered 1 !")
}
