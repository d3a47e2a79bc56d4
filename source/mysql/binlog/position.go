package binlog

import (
	"fmt"
	"strconv"
	"strings"
)

// A Position is a position in the binlog of one server. Positions of one server order all its transactions and never change.
type Position struct {
	// Base is the name of the files without their number, such as "binlog.". File is the number.
	Base string
	File uint64
	Pos  uint64
}

// A file's number takes the upper bits of an ordinal, the position in it the lower ones. Files are far below 64 GiB: the
// server's own positions have 32 bits.
const (
	posBits = 36
	maxFile = 1<<(64-posBits) - 1
	// MaxPos is the highest position in a file.
	MaxPos = 1<<posBits - 1
)

// Ordinal is the position as one number. That of the log's end is above all that is in the log, and below all that will be.
func (p Position) Ordinal() uint64 { return p.File<<posBits | p.Pos }

// Before reports whether p comes before q in the log of the same server.
func (p Position) Before(q Position) bool { return p.Ordinal() < q.Ordinal() }

// FileName returns the name of the file.
func (p Position) FileName() string { return string(p.AppendFileName(nil)) }

// AppendFileName appends the name of the file.
func (p Position) AppendFileName(b []byte) []byte {
	b = append(b, p.Base...)
	start := len(b)
	b = strconv.AppendUint(b, p.File, 10)
	for len(b)-start < 6 { // the server's own form
		b = append(b[:start], append([]byte{'0'}, b[start:]...)...)
	}
	return b
}

// String returns the text form, file:position.
func (p Position) String() string {
	return string(strconv.AppendUint(append(p.AppendFileName(nil), ':'), p.Pos, 10))
}

// ParseFileName returns the position of the first event of a file.
func ParseFileName(name string) (Position, error) {
	dot := strings.LastIndexByte(name, '.')
	n, err := strconv.ParseUint(name[dot+1:], 10, 64)
	if dot < 0 || err != nil || n == 0 || n > maxFile {
		return Position{}, fmt.Errorf("binlog file %q is not of the form name.number", name)
	}
	return Position{Base: name[:dot+1], File: n, Pos: FirstPos}, nil
}

// FirstPos is the position of the first event in each file.
const FirstPos = 4

// ParsePosition reads the text form, file:position.
func ParsePosition(text string) (Position, error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return Position{}, fmt.Errorf("place %q in the binlog is not of the form file:position", text)
	}
	p, err := ParseFileName(text[:colon])
	if err != nil {
		return Position{}, err
	}
	if p.Pos, err = strconv.ParseUint(text[colon+1:], 10, 64); err != nil || p.Pos < FirstPos || p.Pos > MaxPos {
		return Position{}, fmt.Errorf("place %q in the binlog is not of the form file:position", text)
	}
	return p, nil
}
