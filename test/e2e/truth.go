package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/test/slot"
)

// Truth is what was committed, in commit order, read from a logical slot of its own and decoded here: it shares no code
// with the relay. Safe for concurrent use.
type Truth struct {
	bed    *Bed
	reader atomic.Pointer[slot.Reader] // nil while the server is away

	mu        sync.Mutex
	err       error // the last one that passed
	open      txn
	last      uint64 // end of the last transaction that was read
	relations map[uint32]relation
	groups    map[string][]int64
	messages  map[int64]committed
	txns      int
	reordered int // transactions that committed after one with higher ids
	maxID     int64
}

// committed is a message that was committed.
type committed struct {
	group string // "": none
	index int    // in its group's commit order; -1: no group
	txn   uint64 // final LSN
	n     int32  // row in its transaction, counting both tables
}

// txn is a transaction that is being read.
type txn struct {
	final uint64
	n     int32
	skip  bool
	rows  []row // they count once the end is read: the connection may break before
}

type row struct {
	id    int64
	group string
	n     int32
}

type relation struct {
	name    string
	columns []string
}

// NewTruth reads the slot that the bed has made, until the test ends. A server that goes away is waited for.
func NewTruth(b *Bed) *Truth {
	t := &Truth{bed: b, relations: map[uint32]relation{}, groups: map[string][]int64{}, messages: map[int64]committed{}}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			if err := t.follow(ctx); err != nil && ctx.Err() == nil {
				t.mu.Lock()
				t.err = err
				t.mu.Unlock()
				wait(ctx, 50*time.Millisecond)
			}
		}
	})
	b.tb.Cleanup(func() { stop(); reading.Wait() })
	return t
}

// follow reads until the connection ends.
func (t *Truth) follow(ctx context.Context) (err error) {
	r, err := slot.Open(ctx, t.bed.PG.SocketURL(t.bed.DB), t.bed.Slot("truth"), "truth", false)
	if err != nil {
		return err
	}
	t.reader.Store(r)
	defer func() {
		t.reader.Store(nil)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.Close(closing) // it is read from alone
	}()
	t.mu.Lock()
	t.open = txn{}
	t.mu.Unlock()
	for {
		piece, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if piece == nil {
			continue
		}
		t.mu.Lock()
		err = t.take(piece)
		r.Confirm(t.last)
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// CatchUp waits until it has everything that is committed now.
func (t *Truth) CatchUp() {
	t.bed.tb.Helper()
	var end int64
	t.bed.Eventually(time.Minute, func() string {
		if end == 0 {
			var err error
			if end, err = TryAsk[int64](t.bed, `SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint`); err != nil {
				return err.Error()
			}
		}
		r := t.reader.Load()
		if r != nil && r.Received() >= uint64(end) {
			return ""
		}
		if r != nil {
			r.Ask()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Sprintf("the commit order is not read up to %d (last error: %v)", end, t.err)
	})
}

// take takes a message of pgoutput.
func (t *Truth) take(p []byte) error {
	switch p[0] {
	case 'B':
		// What is read again after a crash is known: a transaction's end is above its final LSN.
		t.open = txn{final: binary.BigEndian.Uint64(p[1:])}
		t.open.skip = t.open.final < t.last
	case 'R':
		id, r := readRelation(p[1:])
		t.relations[id] = r
	case 'I':
		n := t.open.n
		t.open.n++
		if !t.open.skip {
			r, err := t.row(p[1:])
			r.n = n
			t.open.rows = append(t.open.rows, r)
			return err
		}
	case 'C':
		if !t.open.skip {
			t.last = binary.BigEndian.Uint64(p[10:])
			t.txns++
			for _, r := range t.open.rows {
				t.insert(r)
			}
		}
	case 'O', 'Y', 'T', 'U', 'D':
	default:
		return fmt.Errorf("read log: unknown message %q", p[0])
	}
	return nil
}

func cstring(b []byte) (string, []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}

func readRelation(b []byte) (uint32, relation) {
	id := binary.BigEndian.Uint32(b)
	var r relation
	_, b = cstring(b[4:])
	r.name, b = cstring(b)
	count := int(binary.BigEndian.Uint16(b[1:])) // after the replica identity
	b = b[3:]
	for range count {
		var name string
		name, b = cstring(b[1:]) // after the flags
		r.columns = append(r.columns, name)
		b = b[8:] // type and modifier
	}
	return id, r
}

// row reads an insert.
func (t *Truth) row(b []byte) (row, error) {
	r, ok := t.relations[binary.BigEndian.Uint32(b)]
	if !ok {
		return row{}, errors.New("read log: row of an unknown relation")
	}
	values := map[string]string{}
	b = b[7:] // relation, 'N', number of columns
	for _, name := range r.columns {
		kind := b[0]
		b = b[1:]
		if kind == 't' {
			size := binary.BigEndian.Uint32(b)
			values[name] = string(b[4 : 4+size])
			b = b[4+size:]
		}
	}
	id, err := strconv.ParseInt(values["id"], 10, 64)
	if err != nil {
		return row{}, fmt.Errorf("read log: id: %w", err)
	}
	group := values["message_group"]
	if r.name == "outbox" {
		group = values["aggregatetype"] + ":" + values["aggregateid"]
	}
	return row{id: id, group: group}, nil
}

// insert takes a row of a transaction that was read to its end.
func (t *Truth) insert(r row) {
	m := committed{group: r.group, index: -1, txn: t.open.final, n: r.n}
	if r.group != "" {
		m.index = len(t.groups[r.group])
		t.groups[r.group] = append(t.groups[r.group], r.id)
	}
	t.messages[r.id] = m
	if r.n == 0 && r.id < t.maxID {
		t.reordered++
	}
	t.maxID = max(t.maxID, r.id)
}

// Count is the number of messages that were committed, as far as it was read.
func (t *Truth) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.messages)
}
