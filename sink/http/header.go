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

// privileged reports whether endpoints and proxies may take a header for the word of whoever they trust. Who may write a row is not
// thereby who may say on whose behalf a request is made, where it came from, or which method it has.
func privileged(canonicalName string) bool {
	switch canonicalName {
	case "Authorization", "Cookie", "Forwarded", "X-Real-Ip", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override":
		return true
	}
	return strings.HasPrefix(canonicalName, "X-Forwarded-")
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
