package debezium

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// compile reads a regular expression of Java that has to match a whole text. flags are those of Go that count for all of it.
func compile(flags, pattern string) (*regexp.Regexp, error) {
	if part := javaOnly(pattern); part != "" {
		return nil, fmt.Errorf("it holds %s, which Java reads in another way than tailbox", part)
	}
	return regexp.Compile(`^(?` + flags + `:` + pattern + `)$`)
}

// unicodeFlag and foldFlag begin a group with such a flag. octal is a character by its number in Go; in Java, it has another number of digits, or is a reference.
var (
	unicodeFlag = lazyregexp.New(`^\(\?[a-z]*U`)
	foldFlag    = lazyregexp.New(`^\(\?[a-z]*i`)
	octal       = lazyregexp.New(`^\\(?:0|[1-7][0-7])`)
	beyondASCII = lazyregexp.New(`[^\x00-\x7F]`)
)

// javaOnly returns the first part of a regular expression that Java and Go both take, each in its own sense; "" if there is none.
func javaOnly(pattern string) string {
	class := false
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, `\Q`):
			end := strings.Index(rest, `\E`)
			if end < 0 {
				return ""
			}
			i += end + 1
		case strings.HasPrefix(rest, `\v`):
			return `\v`
		case octal().MatchString(rest):
			return octal().FindString(rest)
		case rest[0] == '\\':
			i++
		case class && strings.HasPrefix(rest, "&&"):
			return "&& in brackets"
		case class && rest[0] == '[':
			return "[ in brackets"
		case class:
			class = rest[0] != ']'
		case rest[0] == '[':
			class = true
			i += len(classStart().FindString(rest)) - 1
		case unicodeFlag().MatchString(rest):
			return unicodeFlag().FindString(rest)
		case foldFlag().MatchString(rest) && beyondASCII().MatchString(pattern):
			return foldFlag().FindString(rest) + ") beside " + beyondASCII().FindString(pattern)
		}
	}
	return ""
}

// classStart is what a class of characters begins with: a ] there is one of its characters.
var classStart = lazyregexp.New(`^\[\^?\]?`)
