package store_test

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// What is parked comes back as it was, through the columns alone.
func TestParkedRow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	m := &outbox.Message{ID: "sent", Type: "T", Topic: "topic", Group: "g", LongGroup: "gg", Key: []byte("k"), Payload: []byte("p"), Binary: true,
		Headers: []outbox.Header{{Name: "h", Value: []byte("v")}, {Name: "none"}}, Tenant: "tenant", ContentType: "c", IdempotencyKey: "i", CorrelationID: "r",
		Priority: 1, MaxAttempts: 2, AvailableAt: now, CreatedAt: now, Table: "t", Fields: []outbox.Field{{Name: "f", Value: []byte("1"), Type: outbox.FieldBare}},
		Position: outbox.Position{Log: 1, Commit: 2, N: 3}, CommitTime: now.Add(time.Second)}
	p := checkpoint.Parked{Sink: "s", Message: m, State: checkpoint.StateRetrying, Blocks: true, Attempts: 3, Tries: 4, Failed: checkpoint.Failure{Epoch: 5, Call: 6},
		Due: true, NextAttempt: time.Minute, LastError: "e", ErrorClass: "class", Replays: 7, Original: "row"}
	for name, p := range map[string]checkpoint.Parked{"whole": p, "fault": func() checkpoint.Parked {
		faulty := *m
		faulty.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "large"}
		faulty.Payload = nil
		p := p
		p.Message, p.InTable = &faulty, true
		return p
	}()} {
		var in, out store.ParkedRow
		in.Park(&p, now, true)
		in.Next = now.Add(p.NextAttempt)
		to := out.Columns()
		for i, c := range in.Columns() {
			switch from := c.To.(type) {
			case store.JSON:
				if err := to[i].To.(store.JSON).Read(from.Text()); err != nil {
					t.Errorf("%s: read column %s: %v", name, c.Name, err)
				}
			case *string:
				*to[i].To.(*string) = *from
			case *bool:
				*to[i].To.(*bool) = *from
			case *int:
				*to[i].To.(*int) = *from
			case *int32:
				*to[i].To.(*int32) = *from
			case *int64:
				*to[i].To.(*int64) = *from
			case *[]byte:
				*to[i].To.(*[]byte) = *from
			case *time.Time:
				*to[i].To.(*time.Time) = *from
			default:
				t.Errorf("%s: column %s is a %T", name, c.Name, c.To)
			}
		}
		got, err := out.Delivery(now)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, got, p)
		equal(t, name+" row", [...]any{out.Alone, out.RowSettled, out.Unfinished, out.TriedAt, out.ParkedAt, out.ChangedAt}, [...]any{false, true, false, now, now, now})
	}
}
