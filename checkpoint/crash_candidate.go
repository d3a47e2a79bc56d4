package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// A CrashCandidate is the message that a cautious start had in hand, and how many starts in a row ended while they had it. The zero
// value is none.
type CrashCandidate struct {
	Position outbox.Position
	Times    int
}

// String is the form in which stores keep it: POSITION*TIMES, "" for none.
func (s CrashCandidate) String() string {
	if s == (CrashCandidate{}) {
		return ""
	}
	return s.Position.String() + "*" + strconv.Itoa(s.Times)
}

// ParseCrashCandidate reads what String wrote.
func ParseCrashCandidate(text string) (CrashCandidate, error) {
	if text == "" {
		return CrashCandidate{}, nil
	}
	at, times, _ := strings.Cut(text, "*")
	p, err := outbox.ParsePosition(at)
	if err != nil {
		return CrashCandidate{}, err
	}
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 {
		return CrashCandidate{}, fmt.Errorf("read crash candidate %q: want POSITION*TIMES", text)
	}
	return CrashCandidate{p, n}, nil
}
