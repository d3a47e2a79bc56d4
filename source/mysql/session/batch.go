package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
)

const (
	// packetBytes is how much of a batch goes to the server at once. A statement that is larger goes alone.
	packetBytes = 1 << 20
)

const (
	// PacketSlack is what a packet holds beside the statement.
	PacketSlack = 1 << 10
)

const (
	// separator stands between statements. It begins with a line of its own: the statement before it may end in a comment.
	separator = "\n;\n"
)

// An Answer is what a statement came back with. Affected are the rows that it found, changed or not.
type Answer struct {
	Rows     []Row
	Affected int
}

// A Batch is statements that go to the server together, in as few round trips as packets allow. The first error ends it.
type Batch struct {
	names  schema.Names
	buf    []byte
	starts []int
	on     []func(Answer) error
}

// Batch is an empty batch.
func (s *Session) Batch() *Batch { return &Batch{names: s.names} }

// Queue adds a statement. {checkpoint}, {parked} and {request} stand for the tables, and each ? for an argument, so that neither
// stands in a literal. The function, if not nil, gets the answer.
func (b *Batch) Queue(on func(Answer) error, sql string, args ...any) {
	if len(b.buf) > 0 {
		b.buf = append(b.buf, separator...)
	}
	b.starts = append(b.starts, len(b.buf))
	b.buf = b.expand(b.buf, sql, args)
	b.on = append(b.on, on)
}

// Size is how many bytes are queued.
func (b *Batch) Size() int { return len(b.buf) }

// Exec adds a statement without an answer.
func (b *Batch) Exec(sql string, args ...any) { b.Queue(nil, sql, args...) }

// Each adds a query, with a function for each row of its answer.
func (b *Batch) Each(on func(Row) error, sql string, args ...any) {
	b.Queue(func(a Answer) error {
		for _, r := range a.Rows {
			if err := on(r); err != nil {
				return err
			}
		}
		return nil
	}, sql, args...)
}

// expand writes a statement with its tables and arguments.
func (b *Batch) expand(to []byte, sql string, args []any) []byte {
	for len(sql) > 0 {
		i := strings.IndexAny(sql, "?{")
		if i < 0 {
			return append(to, sql...)
		}
		to = append(to, sql[:i]...)
		if sql[i] == '?' {
			to = quote.Append(to, args[0])
			args, sql = args[1:], sql[i+1:]
			continue
		}
		end := strings.IndexByte(sql[i:], '}') + i
		switch sql[i+1 : end] {
		case "checkpoint":
			to = append(to, b.names.Checkpoint...)
		case "parked":
			to = append(to, b.names.Parked...)
		case "request":
			to = append(to, b.names.Request...)
		}
		sql = sql[end+1:]
	}
	return to
}

// Send runs a batch and empties it. After an error, what the batch has done is as the transaction has it.
func (s *Session) Send(ctx context.Context, b *Batch) error {
	starts, on, buf := append(b.starts, len(b.buf)+len(separator)), b.on, b.buf
	*b = Batch{names: b.names}
	for first := 0; first < len(on); {
		last := first + 1
		for last < len(on) && starts[last+1]-starts[first] <= packetBytes {
			last++
		}
		text := buf[starts[first] : starts[last]-len(separator)]
		if len(text) > s.MaxPacket-PacketSlack {
			return fmt.Errorf("%w: a statement of %d bytes does not fit into max_allowed_packet (%d): raise it", source.ErrStop,
				len(text), s.MaxPacket)
		}
		if err := s.packet(ctx, arena.StringOf(text), on[first:last]); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// packet sends statements together, and hands out their answers.
func (s *Session) packet(ctx context.Context, text string, on []func(Answer) error) error {
	var refused error // by a function
	n := 0
	err := s.Conn.Guard(ctx, func() error {
		var failed error
		_, err := s.Conn.Client.ExecuteMultiple(text, func(r *mysql.Result, err error) {
			if err != nil {
				failed = err
				return
			}
			if n < len(on) && on[n] != nil && refused == nil {
				refused = on[n](answerOf(r))
			}
			n++
		})
		if failed != nil {
			return failed
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case n != len(on): // the session's state is not known any more
		return errors.Join(fmt.Errorf("the server answered %d of %d statements", n, len(on)), s.Conn.Close(ctx))
	}
	return nil
}

func answerOf(r *mysql.Result) Answer {
	a := Answer{Affected: int(r.AffectedRows)}
	if r.HasResultset() {
		a.Rows = make([]Row, len(r.Values))
		for i := range r.Values {
			a.Rows[i] = r.Values[i]
		}
	}
	return a
}

// multipleStatements lets the session send several statements in one packet. It is asked for here, and not of every
// connection, because nothing but a batch should.
func (s *Session) multipleStatements(ctx context.Context) error {
	return s.Conn.Guard(ctx, func() error {
		c := s.Conn.Client
		c.ResetSequence()
		// 4 bytes for the header, COM_SET_OPTION, MYSQL_OPTION_MULTI_STATEMENTS_ON.
		if err := c.WritePacket([]byte{0, 0, 0, 0, mysql.COM_SET_OPTION, 0, 0}); err != nil {
			return err
		}
		data, err := c.ReadPacket()
		switch {
		case err != nil:
			return err
		case len(data) > 0 && data[0] == mysql.ERR_HEADER:
			return c.HandleErrorPacket(data)
		case len(data) == 0 || data[0] != mysql.EOF_HEADER && data[0] != mysql.OK_HEADER:
			return mysql.ErrMalformPacket
		}
		return nil
	})
}
