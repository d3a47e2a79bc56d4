package oplog

import (
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/source"
)

// endedPrefix begins a Resume after which the log holds nothing more of a table: it was dropped or renamed there.
const endedPrefix = "ended "

// A Place is what a Resume stands for: everything up to and including At is read. It is no resume token, because a token can
// only be read by a stream of the very tables that made it; a time serves all of them, and nobody reads on in the middle of
// a transaction.
type Place struct {
	At Time
	// Ended: a table was dropped or renamed at that time.
	Ended bool
}

// Resume is the place as a checkpoint keeps it.
func (p Place) Resume() source.Resume {
	if p.Ended {
		return source.Resume(endedPrefix + p.At.String())
	}
	return source.Resume(p.At.String())
}

// ParsePlace reads what Resume wrote.
func ParsePlace(r source.Resume) (Place, error) {
	text, ended := strings.CutPrefix(string(r), endedPrefix)
	at, err := ParseTime(text)
	if err != nil {
		return Place{}, fmt.Errorf("read position %q: %w", string(r), err)
	}
	return Place{at, ended}, nil
}

// TokenTime is the cluster time in a resume token: everything before it was returned, and of that very time perhaps a
// part. Tokens are opaque but for this, which all versions have in common: {_data: hex of a KeyString} that begins with
// a timestamp.
func TokenTime(token bson.Raw) (Time, error) {
	data, _ := token.Lookup("_data").StringValueOK()
	return TokenTextTime(data)
}

// TokenTextTime is TokenTime of a token's text, _data.
func TokenTextTime(data string) (Time, error) {
	if len(data) < 18 || data[:2] != "82" {
		return 0, fmt.Errorf("read resume token %q: it does not begin with a time", data)
	}
	n, err := strconv.ParseUint(data[2:18], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("read resume token %q: %w", data, err)
	}
	return Time(n), nil
}
