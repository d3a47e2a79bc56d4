package polling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/stream"
)

// polled reads n messages from the beginning of the numbers.
func polled(t *testing.T, d *mysqltest.Database, n int, meanwhile func()) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found, done := make(chan string, 1000), make(chan error, 1)
	go func() {
		done <- New(d.Cfg).Run(ctx, source.Start{From: "0", Log: 1}, func(_ context.Context, b *source.Batch) error {
			for _, m := range b.Messages {
				found <- string(m.Payload)
			}
			return nil
		})
	}()
	if meanwhile != nil {
		meanwhile()
	}
	var got []string
	for len(got) < n {
		select {
		case one := <-found:
			got = append(got, one)
		case err := <-done:
			t.Fatalf("Run ended after %v: %v", got, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return strings.Join(got, " ")
}

// TestPollTransactions: an open transaction holds what it may have drawn, whether it has written or not, and also once it is prepared
// and its session is gone; one that only reads holds nothing.
func TestPollTransactions(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
		ctx := context.Background()
		reader, writer, xa := d.Session(t), d.Session(t), d.Session(t)
		mysqltest.Do(t, reader, "START TRANSACTION READ ONLY", "SELECT * FROM outbox")
		mysqltest.Do(t, writer, "START TRANSACTION", "SELECT * FROM outbox")
		table, err := Open(ctx, &d.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = table.Close(ctx) }()
		holds := func(id string) (is bool, list string) {
			for {
				holders, known, wait, err := table.Holders(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if known {
					for _, h := range holders {
						is = is || h.ID == id || strings.HasPrefix(h.ID, id+" ")
					}
					return is, fmt.Sprintf("%+v", holders)
				}
				select { // others on the shared server ask as well
				case <-time.After(wait):
				case <-ctx.Done():
				}
			}
		}
		at := func(s *server.Conn) string { return fmt.Sprintf("open %d", s.Client.GetConnectionID()) }
		if is, list := holds(at(writer)); !is {
			t.Errorf("an open transaction is not among %s", list)
		}
		if is, list := holds(at(reader)); is {
			t.Errorf("one that only reads is among %s", list)
		}
		mysqltest.Do(t, writer, mysqltest.PutRow(1))
		if is, list := holds(at(writer)); is {
			t.Errorf("one that has written has no number in %s", list)
		}
		mysqltest.Do(t, writer, "ROLLBACK")
		name := "'" + d.DB[max(0, len(d.DB)-40):] + "'"
		mysqltest.Do(t, xa, "XA START "+name, mysqltest.PutRow(2), "XA END "+name, "XA PREPARE "+name)
		_ = xa.Close(ctx)
		mysqltest.Do(t, app, mysqltest.PutRow(3))
		got := polled(t, d, 2, func() {
			select { // time to do it wrong
			case <-time.After(400 * time.Millisecond):
			case <-ctx.Done():
			}
			mysqltest.Do(t, app, "XA COMMIT "+name)
		})
		if got != "2 3" {
			t.Errorf("got %s", got)
		}
	})
}

// TestPollForeignStatements: what others have in their statements, and how fast they ask for transactions themselves, is no
// obstacle.
func TestPollForeignStatements(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
		long := d.Session(t)
		mysqltest.Do(t, app, "START TRANSACTION", mysqltest.PutRow(1), "ROLLBACK", mysqltest.PutRow(2))
		mysqltest.Do(t, long, "START TRANSACTION READ ONLY", "SELECT * FROM outbox") // so that its statement is on the list of transactions
		var got string
		over := make(chan error, 1)
		go func() {
			_, err := long.Exec(context.Background(), "SELECT SLEEP(2), '\U0001F600\xff\xfe'")
			over <- err
		}()
		got = polled(t, d, 1, nil)
		if got != "2" {
			t.Errorf("got %s", got)
		}
		<-over
	})
}

// TestPollTruncated: numbers that begin anew are a lost position.
func TestPollTruncated(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
		ctx := context.Background()
		mysqltest.Do(t, app, mysqltest.PutRow(1), mysqltest.PutRow(2), "TRUNCATE TABLE outbox")
		e, err := New(d.Cfg).Examine(ctx, "", "2")
		if err != nil || !strings.Contains(e.Lost, "truncated") {
			t.Errorf("examined %+v, %v", e, err)
		}
		err = New(d.Cfg).Run(ctx, source.Start{From: "2", Log: 1}, func(context.Context, *source.Batch) error { return nil })
		if !errors.Is(err, source.ErrGap) {
			t.Errorf("Run ended with %v", err)
		}
		log := d.Cfg
		log.Poll = false
		if e, err := stream.New(log).Examine(ctx, "", "2"); err != nil || !strings.Contains(e.Lost, "source.read was poll") {
			t.Errorf("examined a number: %+v, %v", e, err)
		}
		if e, err := New(d.Cfg).Examine(ctx, "", "bin.000001:4 0.1 0-1 -"); err != nil || !strings.Contains(e.Lost, "source.read was log") {
			t.Errorf("examined a place in the log: %+v, %v", e, err)
		}
	})
}

// TestPollPlans: no look reads more than what it shows, even before the server has statistics.
func TestPollPlans(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
		ctx := context.Background()
		mysqltest.Do(t, app, "INSERT INTO outbox (type, payload, status) VALUES ('t', 'x', 'delivered')")
		for range 13 {
			mysqltest.Do(t, app, "INSERT INTO outbox (id, type, payload, status) SELECT UUID(), type, payload, status FROM outbox")
		}
		table, err := Open(ctx, &d.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = table.Close(ctx) }()
		last, _, err := table.Last(ctx)
		if err != nil {
			t.Fatal(err)
		}
		mysqltest.Do(t, app, mysqltest.PutRow(1))
		read := func() (n int) {
			rows, err := table.conn.Texts(ctx, "SHOW SESSION STATUS WHERE variable_name IN ('Handler_read_next', 'Handler_read_rnd_next', 'Handler_read_key', 'Handler_read_first')")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				var one int
				_, _ = fmt.Sscan(r[1], &one)
				n += one
			}
			return n
		}
		for range 2 {
			if _, err := table.Numbers(ctx, last-1, 5000); err != nil {
				t.Fatal(err)
			}
		}
		before := read()
		asking := read() - before
		before = read()
		if _, err := table.Numbers(ctx, last, 5000); err != nil {
			t.Fatal(err)
		}
		if n := read() - before - asking; n > 5 {
			t.Errorf("a list of numbers read %d rows", n)
		}
		before = read()
		rows, err := table.conn.Texts(ctx, fmt.Sprintf("%s%s > %d AND %s <= %d%s ORDER BY %[4]s LIMIT 1000", table.rowsSQL, table.from, last, table.number, last+1, table.pending))
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows: %v", len(rows), err)
		}
		if n := read() - before - asking; n > 5 {
			t.Errorf("one row took %d", n)
		}
	})
}
