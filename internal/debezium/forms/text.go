package forms

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"unicode/utf16"
)

var comment = regexp.MustCompile(`(?s)\A\s*(?://[^\n]*(?:\n|\z)|#[^\n]*(?:\n|\z)|/\*.*?\*/)`)

// WithoutComments returns a text without the comments that it begins with.
func WithoutComments(text []byte) []byte {
	for m := comment.Find(text); m != nil; m = comment.Find(text) {
		text = bytes.TrimSpace(text[len(m):])
	}
	return text
}

// InPlace is a part of a text, on the lines on which it stands there.
func InPlace(whole, part []byte) []byte {
	at := max(bytes.LastIndex(whole, part), 0) // the last: comments in front may hold the same
	return append(bytes.Repeat([]byte("\n"), bytes.Count(whole[:at], []byte("\n"))), part...)
}

// Decoded is a text as UTF-8, if its first character tells that it is UTF-16, as PowerShell writes it.
func Decoded(text []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}
