package sink

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// MaxText is how much of what a destination says goes into an error.
const MaxText = 500

// OneLine makes foreign text fit for one line of an error, of at most MaxText bytes.
func OneLine(text string) string {
	if len(text) > MaxText {
		text = text[:MaxText]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	return strings.Join(strings.Fields(text), " ")
}

// maxRetryAfter bounds what an endpoint may ask for with Retry-After.
const maxRetryAfter = time.Hour

// RetryAfter reads the header Retry-After of HTTP, seconds or a date, within 0 and an hour. asked is false if it says
// nothing that can be understood.
func RetryAfter(value string, now time.Time) (wait time.Duration, asked bool) {
	if value = strings.TrimSpace(value); value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if date, err := time.Parse(layout, value); err == nil {
			return max(0, min(date.Sub(now), maxRetryAfter)), true
		}
	}
	return 0, false
}
