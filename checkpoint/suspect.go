package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// A Suspect is the message that a cautious start had in hand, and how many starts in a row ended while they had it. The zero
// value is none.
type Suspect struct {
	Position outbox.Position
	Times    int
}

// String is the form in which stores keep it: POSITION*TIMES, "" for none.
func (s Suspect) String() string {
	if s == (Suspect{}) {
		return ""
	}
	return s.Position.String() + "*" + strconv.Itoa(s.Times)
}

// ParseSuspect reads what String wrote.
func ParseSuspect(text string) (Suspect, error) {
	if text == "" {
		return Suspect{}, nil
	}
	at, times, _ := strings.Cut(text, "*")
	p, err := outbox.ParsePosition(at)
	if err != nil {
		return Suspect{}, err
	}
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 {
		return Suspect{}, fmt.Errorf("read suspect %q: want POSITION*TIMES", text)
	}
	return Suspect{p, n}, nil
}
