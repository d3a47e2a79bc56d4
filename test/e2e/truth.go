package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Truth is what was committed, in commit order, read from a logical slot of its own through SQL and decoded here: it shares
// no code with the relay. Safe for concurrent use.
type Truth struct {
	bed *Bed

	mu        sync.Mutex
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

type relation struct {
	name    string
	columns []string
}

// NewTruth reads the slot that the bed has made. Read brings it up to date.
func NewTruth(b *Bed) *Truth {
	return &Truth{bed: b, relations: map[uint32]relation{}, groups: map[string][]int64{}, messages: map[int64]committed{}}
}

// Follow reads on until ctx ends. Errors pass: the server may be down.
func (t *Truth) Follow(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if n, err := t.Read(ctx); err == nil && n > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// CatchUp reads until it has everything that is committed now.
func (t *Truth) CatchUp() {
	t.bed.tb.Helper()
	t.bed.Eventually(time.Minute, func() string {
		for {
			n, err := t.Read(context.Background())
			if err != nil {
				return fmt.Sprintf("read commit order: %v", err)
			}
			if n == 0 {
				return ""
			}
		}
	})
}

// Read reads a piece, and returns about how many transactions it held: 0 says that there was nothing to read.
func (t *Truth) Read(ctx context.Context) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := t.bed.Slot("truth")
	pieces, err := Rows[[]byte](ctx, t.bed, `SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, 5000,
		'proto_version', '1', 'publication_names', 'truth')`, slot)
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	n, err := t.decode(pieces)
	if err != nil || len(pieces) == 0 {
		return n, err
	}
	// What is peeked again after a crash is known by its LSN. The end may lie beyond what this session sees as flushed.
	_, err = Rows[string](ctx, t.bed, `SELECT end_lsn::text FROM pg_replication_slot_advance($1, $2::pg_lsn)`, slot, lsn(t.last))
	if err != nil {
		return 0, fmt.Errorf("advance slot: %w", err)
	}
	return max(n, 1), nil // there may be more behind what was known already
}

func lsn(v uint64) string { return fmt.Sprintf("%X/%X", v>>32, uint32(v)) }

// decode takes pgoutput messages of protocol 1. It counts the transactions that were new.
func (t *Truth) decode(pieces [][]byte) (txns int, err error) {
	var final uint64
	var n int32
	skip := false
	for _, p := range pieces {
		switch p[0] {
		case 'B':
			final, n = binary.BigEndian.Uint64(p[1:]), 0
			// An empty log position is never a transaction's; its end is above its final LSN.
			skip = final < t.last
		case 'R':
			id, r := readRelation(p[1:])
			t.relations[id] = r
		case 'I':
			if !skip {
				if err := t.insert(p[1:], final, n); err != nil {
					return txns, err
				}
			}
			n++
		case 'C':
			if end := binary.BigEndian.Uint64(p[10:]); !skip {
				t.last = end
				t.txns++
				txns++
			}
		case 'O', 'Y', 'T', 'U', 'D':
		default:
			return txns, fmt.Errorf("read log: unknown message %q", p[0])
		}
	}
	return txns, nil
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

// insert takes a row.
func (t *Truth) insert(b []byte, final uint64, n int32) error {
	r, ok := t.relations[binary.BigEndian.Uint32(b)]
	if !ok {
		return errors.New("read log: row of an unknown relation")
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
		return fmt.Errorf("read log: id: %w", err)
	}
	group := values["message_group"]
	if r.name == "outbox" {
		group = values["aggregatetype"] + ":" + values["aggregateid"]
	}
	m := committed{group: group, index: -1, txn: final, n: n}
	if group != "" {
		m.index = len(t.groups[group])
		t.groups[group] = append(t.groups[group], id)
	}
	t.messages[id] = m
	if n == 0 && id < t.maxID {
		t.reordered++
	}
	t.maxID = max(t.maxID, id)
	return nil
}

// Count is the number of messages that were committed, as far as it was read.
func (t *Truth) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.messages)
}
