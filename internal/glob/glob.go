// Package glob matches texts with the patterns that a configuration may name types, topics and headers by.
package glob

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Pattern is a glob, in which * stands for any run of characters, dots and slashes included, and ? for one character;
// or a regular expression between slashes, which matches anywhere in the text unless it is anchored. Immutable.
type Pattern struct {
	kind  kind
	text  string
	regex *regexp.Regexp
}

type kind uint8

const (
	exact kind = iota
	anything
	prefix
	suffix
	wild
	regular
)

// Parse reads a pattern. The error says what is wrong with a regular expression.
func Parse(s string) (Pattern, error) {
	if len(s) >= 2 && s[0] == '/' && s[len(s)-1] == '/' {
		re, err := regexp.Compile(s[1 : len(s)-1])
		if err != nil {
			return Pattern{}, fmt.Errorf("read regular expression: %w", err)
		}
		return Pattern{kind: regular, regex: re}, nil
	}
	return Glob(s), nil
}

// Glob is the pattern of a glob; a slash is a character like any other.
func Glob(s string) Pattern {
	n := strings.Count(s, "*") + strings.Count(s, "?")
	switch {
	case n == 0:
		return Pattern{kind: exact, text: s}
	case s == "*":
		return Pattern{kind: anything}
	case n == 1 && strings.HasSuffix(s, "*"):
		return Pattern{kind: prefix, text: s[:len(s)-1]}
	case n == 1 && strings.HasPrefix(s, "*"):
		return Pattern{kind: suffix, text: s[1:]}
	}
	return Pattern{kind: wild, text: s}
}

// Match reports whether the pattern is that of a text.
func (p *Pattern) Match(s string) bool {
	switch p.kind {
	case exact:
		return s == p.text
	case anything:
		return true
	case prefix:
		return strings.HasPrefix(s, p.text)
	case suffix:
		return strings.HasSuffix(s, p.text)
	case regular:
		return p.regex.MatchString(s)
	}
	return matches(p.text, s)
}

// matches takes time O(len(pattern) * len(s)): on a mismatch only the last * takes one character more, because whatever
// an earlier * could gain, the last one can gain as well.
func matches(pattern, s string) bool {
	p, i := 0, 0
	star, resume := -1, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, resume = p, i
			p++
			continue
		}
		if p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]) {
			if pattern[p] == '?' {
				_, n := utf8.DecodeRuneInString(s[i:])
				i += n
			} else {
				i++
			}
			p++
			continue
		}
		if star < 0 {
			return false
		}
		_, n := utf8.DecodeRuneInString(s[resume:])
		resume += n
		p, i = star+1, resume
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Any reports whether one of several patterns is that of a text.
func Any(patterns []Pattern, s string) bool {
	for i := range patterns {
		if patterns[i].Match(s) {
			return true
		}
	}
	return false
}
