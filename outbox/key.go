package outbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxKey is how many bytes a result of Key has at most: it fits a varchar(100).
const MaxKey = 100

// Key makes an idempotency key of what the message stands for, such as the order, the type and the recipient. The same
// parts always give the same key, and other parts another one: short ones are joined by ":", others are hashed. Do not put
// anything random or a time of writing in it: such a key is new each time, and keeps nothing from being written twice.
//
// No parts give "", which is no key.
func Key(parts ...string) string {
	if len(parts) == 0 {
		return ""
	}
	plain := strings.Join(parts, ":")
	ok := len(plain) <= MaxKey && utf8.ValidString(plain) && !strings.HasPrefix(plain, hashedKey)
	for _, p := range parts {
		// A part with the separator in it could make two lists of parts one text.
		ok = ok && p != "" && !strings.ContainsAny(p, ":\x00")
	}
	if ok {
		return plain
	}
	h := sha256.New()
	var size [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return hashedKey + hex.EncodeToString(h.Sum(nil))
}

// hashedKey begins a key that was hashed.
const hashedKey = "sha256-"

// NewID makes a UUIDv7 (RFC 9562): 48 bits of milliseconds, 12 of fractions of them, and 62 at random. Ids of one process
// sort by time, and fill an index from its end.
func NewID() string {
	var b [16]byte
	now := time.Now()
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	fraction := uint16(uint64(now.Nanosecond()%1e6) * 4096 / 1e6)
	// rand.Read never fails: it ends the program where the system has no random numbers.
	_, _ = rand.Read(b[8:])
	binary.BigEndian.PutUint16(b[6:8], 0x7000|fraction)
	b[8] = b[8]&0x3f | 0x80
	return uuidText(b[:])
}

// uuidText is the canonical text of 16 bytes.
func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// parseUUID reads a UUID, with or without hyphens, in either case.
func parseUUID(text string) (b [16]byte, ok bool) {
	switch {
	case len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-':
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	case len(text) != 32:
		return b, false
	}
	n, err := hex.Decode(b[:], []byte(text))
	return b, err == nil && n == 16
}
