package outbox

import (
	"cmp"
	"fmt"
	"strconv"
)

// A Position is where a message stands in a source's log. Positions of one source order its messages by commit, and
// never go back: Log grows whenever a log position is established anew (a lost slot, a failover, a restore).
//
// A consumer that remembers the highest position of a group can drop every delivery at or below it as a duplicate.
type Position struct {
	// Log counts how often the position in the log was established anew.
	Log uint32
	// Commit orders transactions: Postgres' final LSN, the place in MySQL's binlog, or what the source has in its place. Rows
	// found by a sweep have 0, which is before everything the log delivers.
	Commit uint64
	// N orders the rows of the transaction as the server sent them, whatever of them is ours: Postgres' are counted from 0,
	// MySQL's have their place among the bytes of the transaction's rows.
	N uint32
}

// String is the position's text form, %08x-%016x-%08x: texts of one source sort as their positions do.
func (p Position) String() string { return string(p.Append(make([]byte, 0, 34))) }

// Append appends the text form to b.
func (p Position) Append(b []byte) []byte {
	b = appendHex(b, uint64(p.Log), 8)
	b = append(b, '-')
	b = appendHex(b, p.Commit, 16)
	b = append(b, '-')
	return appendHex(b, uint64(p.N), 8)
}

func appendHex(b []byte, v uint64, digits int) []byte {
	const hex = "0123456789abcdef"
	for shift := (digits - 1) * 4; shift >= 0; shift -= 4 {
		b = append(b, hex[v>>shift&15])
	}
	return b
}

// Compare orders positions: -1, 0 or +1.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Log, q.Log); c != 0 {
		return c
	}
	if c := cmp.Compare(p.Commit, q.Commit); c != 0 {
		return c
	}
	return cmp.Compare(p.N, q.N)
}

// ParsePosition reads the text form of a position.
func ParsePosition(s string) (Position, error) {
	if len(s) != 34 || s[8] != '-' || s[25] != '-' {
		return Position{}, fmt.Errorf("position %q is not of the form %%08x-%%016x-%%08x", s)
	}
	log, err1 := strconv.ParseUint(s[:8], 16, 32)
	commit, err2 := strconv.ParseUint(s[9:25], 16, 64)
	n, err3 := strconv.ParseUint(s[26:], 16, 32)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return Position{}, fmt.Errorf("position %q: %w", s, err)
		}
	}
	return Position{Log: uint32(log), Commit: commit, N: uint32(n)}, nil
}
