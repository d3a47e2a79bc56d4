package router

import (
	"fmt"
	"strings"
)

// A Problem is one thing that is wrong with a Config. Its path names the key as the configuration file has it.
type Problem struct {
	// Path leads to the key from the top of the file: sections, and indexes of lists from 0.
	Path []string
	// Value is what stands there, as text; "" if the key itself is the problem.
	Value string
	// Reason says what is wrong, with the fix.
	Reason string
	// Allowed are the values or keys that could stand there, if they can be listed.
	Allowed []string
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(strings.Join(p.Path, "."))
	if p.Value != "" {
		fmt.Fprintf(&b, " %q", p.Value)
	}
	b.WriteString(": ")
	b.WriteString(p.Reason)
	if len(p.Allowed) > 0 {
		b.WriteString(" (allowed: ")
		b.WriteString(strings.Join(p.Allowed, ", "))
		b.WriteString(")")
	}
	return b.String()
}

// at returns a path one or more steps below another, without sharing its memory.
func at(path []string, steps ...string) []string {
	return append(append(make([]string, 0, len(path)+len(steps)), path...), steps...)
}
