package postgres

import (
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// An encoding is what the database writes its texts in, by the server's own name; "" where a pooler keeps that to itself. Texts of the
// database's own can be written back whatever it is. What comes from elsewhere (an error of an endpoint, what a sink answered, our own
// words) may have characters that the database cannot write: the server refuses such a statement each time, for ever.
type encoding string

const (
	encodingUTF8 encoding = "UTF8"
	// encodingNone: the server takes bytes for what they are, and knows nothing of characters.
	encodingNone encoding = "SQL_ASCII"
)

// encodingOf asks nothing: a server reports it to every session.
func encodingOf(conn *pgconn.PgConn) encoding {
	return encoding(conn.ParameterStatus("server_encoding"))
}

// narrow tells whether there are characters that the database cannot write.
func (e encoding) narrow() bool {
	return e != "" && e != encodingUTF8 && e != encodingNone
}

// fit is a text of foreign origin as the database can write it. ASCII is part of every encoding, and which other characters are, no server
// tells beforehand.
func (e encoding) fit(s string) string {
	if !e.narrow() || isASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, strings.ReplaceAll(s, "\u2026", "..."))
}

// fitJSON is the same for JSON, which can say it all in ASCII. It is for columns that no statement looks into: the server refuses to.
func (e encoding) fitJSON(s *string) *string {
	if s == nil || !e.narrow() || isASCII(*s) {
		return s
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, r := range *s {
		if r < 0x80 {
			b.WriteByte(byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hex[u>>shift&15])
			}
		}
	}
	text := b.String()
	return &text
}

// fitSettlement is a settlement whose foreign texts fit. What is given stays as it is: it is the caller's, who may settle it again.
func (e encoding) fitSettlement(in *checkpoint.Settlement) *checkpoint.Settlement {
	if !e.narrow() {
		return in
	}
	out := *in
	out.Park, out.Changes, out.Rows = slices.Clone(in.Park), slices.Clone(in.Changes), slices.Clone(in.Rows)
	for i := range out.Park {
		p := &out.Park[i]
		p.LastError, p.Message = e.fit(p.LastError), e.fitFault(p.Message)
	}
	for i := range out.Changes {
		c := &out.Changes[i]
		c.LastError, c.Receipt = e.fit(c.LastError), e.fit(c.Receipt)
	}
	for i := range out.Rows {
		out.Rows[i].Receipt = e.fit(out.Rows[i].Receipt)
	}
	return &out
}

// fitFault is a message whose fault's reason fits.
func (e encoding) fitFault(m *outbox.Message) *outbox.Message {
	if m.Fault == nil {
		return m
	}
	fitting := *m
	fitting.Fault = &outbox.Fault{Class: m.Fault.Class, Reason: e.fit(m.Fault.Reason)}
	return &fitting
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
