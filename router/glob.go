package router

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A pattern is a glob, in which * stands for any run of characters, dots and slashes included, and ? for one character;
// or a regular expression between slashes, which matches anywhere in the text unless it is anchored.
type pattern struct {
	kind  patternKind
	text  string
	regex *regexp.Regexp
}

type patternKind uint8

const (
	patternExact patternKind = iota
	patternAny
	patternPrefix
	patternSuffix
	patternGlob
	patternRegex
)

func parsePattern(s string) (pattern, error) {
	if len(s) >= 2 && s[0] == '/' && s[len(s)-1] == '/' {
		re, err := regexp.Compile(s[1 : len(s)-1])
		if err != nil {
			return pattern{}, fmt.Errorf("read regular expression: %w", err)
		}
		return pattern{kind: patternRegex, regex: re}, nil
	}
	wild := strings.Count(s, "*") + strings.Count(s, "?")
	switch {
	case wild == 0:
		return pattern{kind: patternExact, text: s}, nil
	case s == "*":
		return pattern{kind: patternAny}, nil
	case wild == 1 && strings.HasSuffix(s, "*"):
		return pattern{kind: patternPrefix, text: s[:len(s)-1]}, nil
	case wild == 1 && strings.HasPrefix(s, "*"):
		return pattern{kind: patternSuffix, text: s[1:]}, nil
	}
	return pattern{kind: patternGlob, text: s}, nil
}

func (p *pattern) match(s string) bool {
	switch p.kind {
	case patternExact:
		return s == p.text
	case patternAny:
		return true
	case patternPrefix:
		return strings.HasPrefix(s, p.text)
	case patternSuffix:
		return strings.HasSuffix(s, p.text)
	case patternRegex:
		return p.regex.MatchString(s)
	}
	return glob(p.text, s)
}

// glob matches in time O(len(pattern) * len(s)): on a mismatch only the last * takes one character more, because whatever
// an earlier * could gain, the last one can gain as well.
func glob(pattern, s string) bool {
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
