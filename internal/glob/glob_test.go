package glob_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/internal/glob"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "a.b/c", true}, {"a*", "a", true}, {"a*", "ba", false},
		{"*a", "bca", true}, {"*a", "ab", false}, {"a.*.c", "a.b.b.c", true}, {"a.*.c", "a.c", false},
		{"?", "", false}, {"?", "é", true}, {"??", "é", false}, {"?*", "x", true}, {"*?", "", false},
		{"*ab*ab*", "abab", true}, {"*ab*ab*", "aba", false}, {"**", "", true}, {"a**b", "ab", true},
		{"*é?", "xéé", true}, {"/b+/", "abbc", true}, {"/^b/", "ab", false}, {"/", "/", true}, {"//", "x", true},
		{"[a]", "a", false}, {"[a]", "[a]", true},
	} {
		p, err := glob.Parse(c.pattern)
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		if got := p.Match(c.text); got != c.want {
			t.Errorf("pattern %q on %q: %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
}

// FuzzGlob compares with the same pattern as a regular expression.
func FuzzGlob(f *testing.F) {
	f.Add("a*b?c", "aXbYc")
	f.Add("*?*", "é")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if strings.HasPrefix(pattern, "/") || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			t.Skip()
		}
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
		want := regexp.MustCompile(`(?s)\A` + quoted + `\z`).MatchString(text)
		p, err := glob.Parse(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(text); got != want {
			t.Errorf("pattern %q on %q: %v, want %v", pattern, text, got, want)
		}
	})
}
