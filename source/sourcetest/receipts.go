package sourcetest

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// testReceipts: what sinks answered is kept with the row, a line each, in the transaction that settles it; with keep, it is
// all that is written.
func testReceipts(t *testing.T, k Kind) {
	for on, states := range map[outbox.OnDelivered][3]string{
		outbox.Mark: {"delivered 1 ", "retrying 1 ", "delivered 2 "},
		outbox.Keep: {"pending 0 ", "pending 0 ", "pending 0 "},
	} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			with := table("tailbox", "outbox").with(on)
			with.Columns.Receipt = "receipt"
			r := newStoreRig(t, k, Setup{Tables: []Table{with}})
			r.insert(rows(1, 4, "")...)
			show := func(what string, want ...string) {
				t.Helper()
				found, err := r.db.Rows(r.ctx, r.tables[0])
				r.must(err, "read rows")
				var got []string
				for _, row := range found {
					if row.Status == "pending" && row.Receipt == "" {
						continue
					}
					got = append(got, Short(row.ID)+" "+strings.TrimSpace(row.Status)+" "+string(rune('0'+row.Attempts))+" "+row.Receipt)
				}
				if on == outbox.Keep {
					var still []string
					for _, line := range want {
						if !strings.HasSuffix(line, " ") {
							still = append(still, line)
						}
					}
					want = still
				}
				equal(t, what, strings.Join(got, "; "), strings.Join(want, "; "))
			}
			line := func(m *outbox.Message, parked bool, receipt string) checkpoint.Row {
				row := RowOf(m, parked)
				row.Receipt = receipt
				return row
			}
			one, two, three := r.msg(1, ""), r.msg(2, ""), r.msg(3, "")
			r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{line(one, false, "kafka: it's \\ \"é\""), line(two, false, "")}})
			show("delivered", "1 "+states[0]+"kafka: it's \\ \"é\"", "2 "+states[0])
			r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{Head("mail", three, 0), Head("chat", three, 0)},
				Rows: []checkpoint.Row{line(three, true, "kafka: a")}})
			show("one of three", "1 "+states[0]+"kafka: it's \\ \"é\"", "2 "+states[0], "3 "+states[1]+"kafka: a")
			for _, sink := range []string{"mail", "chat"} {
				c := Delivered(sink, three)
				c.Receipt = sink + ": b"
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
			}
			show("all of three", "1 "+states[0]+"kafka: it's \\ \"é\"", "2 "+states[0], "3 "+states[2]+"kafka: a\nmail: b\nchat: b")
			long := line(r.msg(4, ""), false, "kafka: "+strings.Repeat("é", 1000))
			r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{long}})
			found, err := r.db.Rows(r.ctx, r.tables[0])
			r.must(err, "read rows")
			equal(t, "a long one", found[3].Receipt, long.Receipt)
		})
	}
}
