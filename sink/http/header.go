package http

import (
	"net/textproto"
	"strings"
)

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// framing reports whether a header belongs to the connection or to the form of the request, and not to a message. A row
// of the outbox must not be able to change where a request ends.
func framing(canonicalName string) bool {
	switch canonicalName {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
		"Proxy-Connection", "Proxy-Authorization":
		return true
	}
	return false
}

// reserved reports whether a header is the relay's own: one of the application's must not pass for a position.
func reserved(canonicalName string) bool {
	return canonicalName == "Id" || strings.HasPrefix(canonicalName, "Tailbox-")
}

// validName reports whether name is a token of RFC 9110.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// validValue reports whether a header can have this value.
func validValue[S string | []byte](value S) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// appendText appends s as part of a header's value: control characters, %, spaces at either end and the bytes of also
// become %XX.
func appendText(b []byte, s, also string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		end := i == 0 || i == len(s)-1
		if c < ' ' || c == 0x7f || c == '%' || c == ' ' && end || also != "" && strings.IndexByte(also, c) >= 0 {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

func text(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '%' {
			return string(appendText(nil, s, ""))
		}
	}
	return s
}

// idempotencyKey is key as a structured-field string (RFC 9651): in quotes, visible ASCII, the rest as %XX.
func idempotencyKey(key string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(key)+2)
	b = append(b, '"')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f || c == '%':
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
