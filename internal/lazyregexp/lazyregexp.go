// Package lazyregexp holds regular expressions that a process compiles when it first uses them. To read a configuration of Debezium
// takes a hundred, and `tailbox run` needs none of them: compiled at its start, they would cost it milliseconds of processor time.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns what compiles the pattern at the first call, and returns the expression at each. A pattern that does not compile panics
// there. Any number of goroutines may call it.
func New(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
