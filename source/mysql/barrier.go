package mysql

import (
	"fmt"
	"strconv"
	"strings"
)

// A place is where something stands in the binlog of one server: a file, and an offset in it. It is the text of
// barriers (file:offset), which the store makes and the reader of the binlog passes: no later than at the first event that
// ends there or beyond, a rotation to a later file included.
type place struct {
	file   string
	offset uint64
}

func (p place) String() string { return p.file + ":" + strconv.FormatUint(p.offset, 10) }

// parsePlace reads file:offset.
func parsePlace(text string) (place, error) {
	i := strings.LastIndexByte(text, ':')
	if i > 0 {
		if offset, err := strconv.ParseUint(text[i+1:], 10, 64); err == nil {
			return place{text[:i], offset}, nil
		}
	}
	return place{}, fmt.Errorf("place in the binlog %q is not of the form file:offset", text)
}

// compare orders places of one server: -1, 0 or +1. The number of a file is what follows its last dot; it has six digits,
// and more when those are used up.
func (p place) compare(q place) int {
	a, b := fileNumber(p.file), fileNumber(q.file)
	switch {
	case a < b, a == b && p.offset < q.offset:
		return -1
	case a > b, a == b && p.offset > q.offset:
		return 1
	}
	return 0
}

// fileNumber is the number of a file of the binlog; 0 for names without one.
func fileNumber(file string) uint64 {
	n, err := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
