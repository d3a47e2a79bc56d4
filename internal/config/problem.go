package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with the file.
type Problem struct {
	// Line is where it stands, from 1; 0 where it stands nowhere, such as a missing key.
	Line int
	// Path is the key path, such as sinks.kafka.compression or routes[0].to.
	Path string
	// Value is what stands there; "" for keys, and for values that may be secret.
	Value string
	// Reason says what is wrong, with the fix; Allowed lists what could stand there, if that can be listed.
	Reason  string
	Allowed []string

	// key is the last step of the path.
	key string
}

func (p *Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d: ", p.Line)
	}
	b.WriteString(p.Path)
	word := p.key
	if p.Value != "" {
		word = p.Value
		fmt.Fprintf(&b, " %q", p.Value)
	}
	b.WriteString(": " + p.Reason)
	if len(p.Allowed) > 0 {
		b.WriteString(" (allowed: " + strings.Join(p.Allowed, ", ") + ")")
		if near := nearest(word, p.Allowed); near != "" {
			fmt.Fprintf(&b, "; did you mean %s?", near)
		}
	}
	return b.String()
}

// Error is all that is wrong with a file, in the file's order.
type Error struct {
	File     string
	Problems []*Problem
}

func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File + ":")
		if p.Line == 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// sortProblems puts the file's order first, and what stands nowhere at the end.
func sortProblems(ps []*Problem) []*Problem {
	sorted := slices.Clone(ps)
	slices.SortStableFunc(sorted, func(a, b *Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Compare(a.Line, b.Line)
	})
	return slices.CompactFunc(sorted, func(a, b *Problem) bool { return a.String() == b.String() })
}

// nearest returns the allowed word that s is most likely a slip of, or "".
func nearest(s string, allowed []string) string {
	best, least := "", 1+max(1, len(s)/3)
	for _, word := range allowed {
		if d := distance(strings.ToLower(s), strings.ToLower(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance counts the inserted, deleted, changed and exchanged neighbouring bytes between two words.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
