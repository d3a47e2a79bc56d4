package columns

import (
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Near finds the name that was probably meant: one that differs only in case or spelling; "" if there is none, or if name itself is there.
func Near(name string, among []string) string {
	near, least := "", 3
	for _, other := range among {
		switch {
		case other == name:
			return ""
		case strings.EqualFold(bare(other), bare(name)):
			near, least = other, 0
		case len(name) > 4:
			if n := distance(strings.ToLower(bare(name)), strings.ToLower(bare(other)), least); n < least {
				near, least = other, n
			}
		}
	}
	return near
}

// DidYouMean is a hint for an error about a name: " (did you mean x?)", or nothing.
func DidYouMean(name string, among []string) string {
	if near := Near(name, among); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// bare is a name without what people leave out or mix up.
func bare(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "", `"`, "", "`", "").Replace(name)
}

// distance is how many letters are added, removed or exchanged between two names; most where it is that or more.
func distance(a, b string, most int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], most)
}

// Dispensable is the key of columns by which a message, or the relay, does without a column of this name; "" if it cannot.
func Dispensable(t *outbox.Table, column string) string {
	for _, key := range outbox.ColumnNames() {
		switch key {
		case "id", "payload", "type", "group", "status":
			continue
		}
		if field := t.Columns.Field(key); field != nil && *field == column && column != "" {
			return key
		}
	}
	return ""
}
