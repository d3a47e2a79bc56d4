package pgrepl

import (
	"fmt"
	"strconv"
	"strings"
)

// An LSN is a position in Postgres' write-ahead log.
type LSN uint64

// String returns the server's text form, X/X.
func (l LSN) String() string { return string(l.Append(make([]byte, 0, 17))) }

// Append appends the text form.
func (l LSN) Append(b []byte) []byte {
	const hex = "0123456789ABCDEF"
	for i, half := range [2]uint32{uint32(l >> 32), uint32(l)} {
		if i == 1 {
			b = append(b, '/')
		}
		shift := 28
		for shift > 0 && half>>shift == 0 {
			shift -= 4
		}
		for ; shift >= 0; shift -= 4 {
			b = append(b, hex[half>>shift&15])
		}
	}
	return b
}

// ParseLSN reads the text form X/X.
func ParseLSN(s string) (LSN, error) {
	hi, lo, ok := strings.Cut(s, "/")
	h, err1 := strconv.ParseUint(hi, 16, 32)
	l, err2 := strconv.ParseUint(lo, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("log position %q is not of the form X/X", s)
	}
	return LSN(h<<32 | l), nil
}
