package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A snapshot is what pg_current_snapshot returned: which transactions are visible. Transaction ids are the 64-bit ones.
type snapshot struct {
	xmin, xmax uint64
	running    []uint64
}

// parseSnapshot reads xmin:xmax:xid,xid,….
func parseSnapshot(text string) (snapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return snapshot{}, fmt.Errorf("read snapshot %q: want xmin:xmax:xids", text)
	}
	var s snapshot
	var err error
	if s.xmin, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	if s.xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	if parts[2] == "" {
		return s, nil
	}
	for _, x := range strings.Split(parts[2], ",") {
		n, err := strconv.ParseUint(x, 10, 64)
		if err != nil {
			return snapshot{}, fmt.Errorf("read snapshot: %w", err)
		}
		s.running = append(s.running, n)
	}
	return s, nil
}

// visible reports whether the transaction's rows can be seen. txn is the 32-bit id that the log names; a transaction that was
// just read from the log is less than half the circle away from the snapshot's end.
func (s *snapshot) visible(txn uint64) bool {
	x := s.full(txn)
	return x < s.xmax && (x < s.xmin || !slices.Contains(s.running, x))
}

// full is the 64-bit id, of those that end in these 32 bits, which is nearest to the snapshot's end.
func (s *snapshot) full(txn uint64) uint64 {
	if txn>>32 != 0 {
		return txn
	}
	const circle = 1 << 32
	x := s.xmax&^(circle-1) | txn
	switch {
	case x > s.xmax && x-s.xmax > circle/2 && x >= circle:
		return x - circle
	case x < s.xmax && s.xmax-x > circle/2:
		return x + circle
	}
	return x
}
