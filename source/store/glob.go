package store

import "strings"

// A glob selects texts: * stands for any run of characters, ? for one, and a backslash takes the character behind it as it is. A backslash alone stands for
// the empty text, which a selection could not name otherwise.

// GlobOf returns a glob that matches a text, and no other.
func GlobOf(text string) string {
	if text == "" {
		return `\`
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(text)
}

// LikePattern turns a glob into a pattern for LIKE with a character that escapes; "" stays "".
func LikePattern(glob string, escape rune) string {
	var b strings.Builder
	literal := false
	for _, c := range glob {
		switch {
		case !literal && c == '\\':
			literal = true
			continue
		case !literal && c == '*':
			b.WriteByte('%')
		case !literal && c == '?':
			b.WriteByte('_')
		case c == '%', c == '_', c == escape:
			b.WriteRune(escape)
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
		literal = false
	}
	return b.String()
}

// MatchGlob reports whether a text matches a glob. It takes a time of at most both lengths multiplied.
func MatchGlob(glob, text string) bool {
	pattern, wild := []rune{}, []bool{}
	literal := false
	for _, c := range glob {
		if !literal && c == '\\' {
			literal = true
			continue
		}
		pattern, wild = append(pattern, c), append(wild, !literal && (c == '*' || c == '?'))
		literal = false
	}
	// On a mismatch the last * takes one character more.
	star, from := -1, 0
	t := []rune(text)
	p := 0
	for i := 0; i < len(t); {
		switch {
		case p < len(pattern) && wild[p] && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (wild[p] || pattern[p] == t[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && wild[p] && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
