package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"time"
)

// Lines plays the reader of a relay's standard output. A torn last line is no delivery.
type Lines struct {
	Ledger *Ledger
	// Stalls makes it stop reading now and then, for up to this long: the relay's writes hang.
	Stalls time.Duration
	Rand   *rand.Rand // used by the reading goroutine only
}

// line is what a line holds, as far as it is looked at.
type line struct {
	ID       string          `json:"id"`
	Group    *string         `json:"group"`
	Payload  json.RawMessage `json:"payload"`
	Position string          `json:"position"`
	Attempt  int             `json:"attempt"`
}

// Read reads one relay's output to its end.
func (l *Lines) Read(r io.Reader) {
	reader := bufio.NewReaderSize(r, 256<<10)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return // the end; what is left is torn
		}
		if l.Stalls > 0 && l.Rand.IntN(5000) == 0 {
			Pause(time.Duration(l.Rand.Int64N(int64(l.Stalls))))
		}
		if d, ok := parseLine(text); ok {
			l.Ledger.Deliver(false, d)
		} else {
			l.Ledger.Broke("changed", "a line is not what it should be: %.200q", text)
		}
	}
}

// parseLine reads a line of the sinks stdout and file.
func parseLine(text []byte) (Delivery, bool) {
	var m line
	if err := json.Unmarshal(bytes.TrimSpace(text), &m); err != nil || m.ID == "" {
		return Delivery{}, false
	}
	d := Delivery{ID: m.ID, Payload: m.Payload, Position: m.Position, Attempt: m.Attempt}
	if m.Group != nil {
		d.Group = *m.Group
	}
	return d, true
}
