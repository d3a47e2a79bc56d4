package sink

import (
	"strings"
	"unicode/utf8"
)

// MaxReceipt bounds a receipt, in bytes.
const MaxReceipt = 1 << 10

// A Receipt takes what a destination said when it took a delivery, such as "250 2.0.0 Ok: queued as 4FB1" or
// "partition=3 offset=42": one line for operators, kept in the column of the user's row that is mapped to receipt. It is
// used by one goroutine at a time.
type Receipt struct{ text string }

// Set notes what the destination said, as one line of at most MaxReceipt bytes of UTF-8 without control characters: what
// is not is cut off or replaced. On a nil receipt, which is the rule, it does nothing; a text that is costly to make is
// made only for one that is not nil.
func (r *Receipt) Set(text string) {
	if r == nil {
		return
	}
	if len(text) > MaxReceipt {
		text = text[:MaxReceipt]
		for range utf8.UTFMax - 1 { // a rune that was cut in two
			if last, n := utf8.DecodeLastRuneInString(text); last != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	r.text = strings.Clone(strings.TrimSpace(text)) // it may point into a large answer
}

// Text is what was set; "" on a nil receipt.
func (r *Receipt) Text() string {
	if r == nil {
		return ""
	}
	return r.text
}
