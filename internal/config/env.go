package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// variable is a reference to the environment: capitals, digits and underscores only, so that ${…} of other languages,
// such as ${routedByValue}, stays as it is.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+)(:-[^}]*)?\}`)

// Unset returns the variables that a text refers to without a default, and that the environment does not have, as often as they stand there.
func Unset(s string, env func(string) (string, bool)) (names []string) {
	for _, found := range variable.FindAllStringSubmatch(s, -1) {
		if _, set := env(found[1]); !set && found[2] == "" {
			names = append(names, found[1])
		}
	}
	return names
}

// An expansion puts the environment into a text.
type expansion func(s string, env func(string) (string, bool)) (string, []error)

// expand replaces references to the environment. As in a shell, the default after :- stands for unset and for empty.
func expand(s string, env func(string) (string, bool)) (string, []error) {
	return expandAs(s, env, func(_, value string) string { return value })
}

// expandAs is expand with what a variable holds passed through as, which also gets the text before the reference, without those
// in it. A default is written for the place where it stands, and is taken as it is.
func expandAs(s string, env func(string) (string, bool), as func(before, value string) string) (string, []error) {
	var errs []error
	var out, before strings.Builder
	last := 0
	for _, at := range variable.FindAllStringSubmatchIndex(s, -1) {
		out.WriteString(s[last:at[0]])
		before.WriteString(s[last:at[0]])
		last = at[1]
		name, hasDefault := s[at[2]:at[3]], at[4] >= 0
		value, set := env(name)
		switch {
		case hasDefault && value == "":
			out.WriteString(strings.TrimPrefix(s[at[4]:at[5]], ":-"))
			continue
		case !hasDefault && !set:
			errs = append(errs, fmt.Errorf("the environment variable %s is not set: set it, or give a default as in ${%s:-…}", name, name))
		}
		out.WriteString(as(before.String(), value))
	}
	return out.String() + s[last:], errs
}

// expandAddress is expand for the address of a Postgres server. Between the single quotes of libpq's keywords a variable may hold any
// text, as a password does: it is quoted as libpq asks for. In a URI it stands as it is, so that it can hold several parts of one.
func expandAddress(s string, env func(string) (string, bool)) (string, []error) {
	if strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://") {
		return expand(s, env)
	}
	return expandAs(s, env, func(before, value string) string {
		if !quotesOpen(before) {
			return value
		}
		return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)
	})
}

// quotesOpen reports whether keywords of libpq's end within quotes. A quote opens them only where a value begins.
func quotesOpen(keywords string) bool {
	open, last := false, rune(0) // last is the last character that is no space
	escaped := false
	for _, r := range keywords {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '\'' && open:
			open = false
		case r == '\'' && last == '=':
			open = true
		}
		if !strings.ContainsRune(" \t\r\n\v\f", r) {
			last = r
		}
	}
	return open
}

// asIs matches what may stand in the user's part of a URL as it is. A variable that somebody has escaped already stays.
var asIs = regexp.MustCompile(`^(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*$`)

// expandURL is expand for a URL. A variable in its user's part may hold any text, as a password does: it is escaped, unless it can stand as it is. Where
// that part is, the text without the references tells.
func expandURL(s string, env func(string) (string, bool)) (string, []error) {
	scheme, rest, ok := strings.Cut(variable.ReplaceAllString(s, ""), "://")
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	at := strings.LastIndexByte(authority, '@')
	if !ok || at < 0 {
		return expand(s, env)
	}
	begin := len(scheme) + len("://")
	return expandAs(s, env, func(before, value string) string {
		user, password, both := strings.Cut(value, ":")
		switch n := len(before); {
		case n < begin || n > begin+at || asIs.MatchString(value):
			return value
		case at == 0 && both: // it is all of the user's part
			return escaped(user) + ":" + escaped(password)
		}
		return escaped(value)
	})
}

func escaped(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
