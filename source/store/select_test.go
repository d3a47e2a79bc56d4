package store

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		glob, text string
		matches    bool
	}{
		{`order.*`, "order.placed", true}, {`order.*`, "orders", false}, {`a/*/c`, "a/b/b/c", true}, {`?`, "é", true}, {`?`, "", false}, {`*`, "", true}, {`\`, "", true}, {`\`, "a", false},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {`a\\`, `a\`, true}, {`\?`, "?", true}, {`\?`, "x", false}, {`[a]`, "[a]", true}, {`*a*b*`, "xxaxxbxx", true}, {`a\`, "a", true},
		{`%`, "x", false}, {`_`, "x", false}, {`*\*`, "x*", true}, {`*\*`, "x*x", false},
	} {
		if got := MatchGlob(x.glob, x.text); got != x.matches {
			t.Errorf("%q matches %q: %t", x.glob, x.text, got)
		}
		if got := like(LikePattern(x.glob, '|'), x.text); got != x.matches {
			t.Errorf("%q as %q matches %q: %t", x.glob, LikePattern(x.glob, '|'), x.text, got)
		}
	}
	pick := func(from string) string {
		var b strings.Builder
		for range rand.IntN(6) {
			b.WriteRune([]rune(from)[rand.IntN(len([]rune(from)))])
		}
		return b.String()
	}
	for range 20_000 {
		glob, text := pick(`ab*?\%_|é[]/^-`), pick(`ab*?\%_|é[]/^-`)
		if got, want := MatchGlob(glob, text), like(LikePattern(glob, '|'), text); got != want {
			t.Fatalf("%q matches %q: %t, and by LIKE %q: %t", glob, text, got, LikePattern(glob, '|'), want)
		}
		if got := MatchGlob(GlobOf(text), pick(`ab*?\%_|é[]/^-`)+"x"); got {
			t.Fatalf("%q, of %q, matches more", GlobOf(text), text)
		}
		if !MatchGlob(GlobOf(text), text) {
			t.Fatalf("%q does not match %q", GlobOf(text), text)
		}
	}
}

// like is LIKE with the escape |.
func like(pattern, text string) bool {
	var b strings.Builder
	escaped := false
	for _, c := range pattern {
		switch {
		case !escaped && c == '|':
			escaped = true
			continue
		case !escaped && c == '%':
			b.WriteString(`(?s:.*)`)
		case !escaped && c == '_':
			b.WriteString(`(?s:.)`)
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
		escaped = false
	}
	return regexp.MustCompile(`^` + b.String() + `$`).MatchString(text)
}
