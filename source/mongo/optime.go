package mongo

import (
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/source"
)

// An opTime is a cluster time: seconds in the high half, an ordinal within the second in the low one. The operations of one
// transaction share it, and it orders transactions; so it is the Commit of positions, as it is.
type opTime uint64

func opTimeOf(t, i uint32) opTime { return opTime(t)<<32 | opTime(i) }

func (t opTime) timestamp() bson.Timestamp { return bson.Timestamp{T: uint32(t >> 32), I: uint32(t)} }

// String is seconds:ordinal, in decimal.
func (t opTime) String() string {
	b := strconv.AppendUint(make([]byte, 0, 21), uint64(t>>32), 10)
	return string(strconv.AppendUint(append(b, ':'), uint64(t&(1<<32-1)), 10))
}

// parseOpTime reads what String wrote.
func parseOpTime(s string) (opTime, error) {
	sec, ord, ok := strings.Cut(s, ":")
	t, err1 := strconv.ParseUint(sec, 10, 32)
	i, err2 := strconv.ParseUint(ord, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("read cluster time %q: want seconds:ordinal", s)
	}
	return opTimeOf(uint32(t), uint32(i)), nil
}

// endedPrefix begins a Resume after which the log holds nothing more of a table: it was dropped or renamed there.
const endedPrefix = "ended "

// A place is what a Resume stands for: everything up to and including at is read. It is no resume token, because a token can
// only be read by a stream of the very tables that made it; a time serves all of them, and nobody reads on in the middle of
// a transaction.
type place struct {
	at opTime
	// ended: a table was dropped or renamed at that time.
	ended bool
}

func (p place) resume() source.Resume {
	if p.ended {
		return source.Resume(endedPrefix + p.at.String())
	}
	return source.Resume(p.at.String())
}

func parsePlace(r source.Resume) (place, error) {
	text, ended := strings.CutPrefix(string(r), endedPrefix)
	at, err := parseOpTime(text)
	if err != nil {
		return place{}, fmt.Errorf("read position %q: %w", string(r), err)
	}
	return place{at, ended}, nil
}

// tokenTime is the cluster time in a resume token: everything before it was returned, and of that very time perhaps a
// part. Tokens are opaque but for this, which all versions have in common: {_data: hex of a KeyString} that begins with
// a timestamp.
func tokenTime(token bson.Raw) (opTime, error) {
	data, ok := token.Lookup("_data").StringValueOK()
	if !ok || len(data) < 18 || data[:2] != "82" {
		return 0, fmt.Errorf("read resume token %s: it does not begin with a time", token)
	}
	n, err := strconv.ParseUint(data[2:18], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("read resume token %s: %w", token, err)
	}
	return opTime(n), nil
}
