package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/test/slot"
)

// slotFollower reads a logical slot that the bed has made, with a decoder of its own.
type slotFollower struct {
	*Truth
	reader    atomic.Pointer[slot.Reader] // nil while the server is away
	open      txn
	last      uint64 // end of the last transaction that was read
	relations map[uint32]relation
}

// txn is a transaction that is being read.
type txn struct {
	final uint64
	at    int64 // time of the commit
	n     int32
	skip  bool
	rows  []row // they count once the end is read: the connection may break before
}

type relation struct {
	name    string
	columns []string
}

func (p postgres) follower(t *Truth) follower {
	return &slotFollower{Truth: t, relations: map[uint32]relation{}}
}

func (f *slotFollower) goal() (uint64, error) {
	end, err := TryAsk[int64](f.bed, `SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint`)
	return uint64(end), err
}

func (f *slotFollower) reached(goal uint64) bool {
	r := f.reader.Load()
	if r == nil {
		return false
	}
	if r.Received() >= goal {
		return true
	}
	r.Ask()
	return false
}

func (f *slotFollower) follow(ctx context.Context) (err error) {
	r, err := slot.Open(ctx, f.bed.PG.SocketURL(f.bed.DB), f.bed.Slot("truth"), "truth", false)
	if err != nil {
		return err
	}
	f.reader.Store(r)
	defer func() {
		f.reader.Store(nil)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.Close(closing) // it is read from alone
	}()
	f.open = txn{}
	for {
		piece, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if piece == nil {
			continue
		}
		if err := f.take(piece); err != nil {
			return err
		}
		r.Confirm(f.last)
	}
}

// take takes a message of pgoutput.
func (f *slotFollower) take(p []byte) error {
	switch p[0] {
	case 'B':
		// What is read again after a crash is known: a transaction's end is above its final LSN.
		f.open = txn{final: binary.BigEndian.Uint64(p[1:]), at: int64(binary.BigEndian.Uint64(p[9:]))}
		f.open.skip = f.open.final < f.last
	case 'R':
		id, r := readRelation(p[1:])
		f.relations[id] = r
	case 'I':
		n := f.open.n
		f.open.n++
		if !f.open.skip {
			r, err := f.row(p[1:])
			r.n = n
			f.open.rows = append(f.open.rows, r)
			return err
		}
	case 'C':
		if !f.open.skip {
			f.last = binary.BigEndian.Uint64(p[10:])
			f.time(f.open.final, f.open.at)
			f.commit(f.open.final, f.open.rows)
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
func (f *slotFollower) row(b []byte) (row, error) {
	r, ok := f.relations[binary.BigEndian.Uint32(b)]
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
