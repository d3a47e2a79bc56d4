package router

import (
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/glob"
	"github.com/tailbox/tailbox/outbox"
)

// A matcher decides whether a route applies to a message; nil matches everything.
type matcher func(*outbox.Message) bool

// headerPrefix opens the match keys that look at a header.
const headerPrefix = "header."

// newMatcher makes one matcher of all keys of a match: each key must match, by any of its patterns.
func newMatcher(match map[string][]string, path []string) (matcher, []*Problem) {
	var all []matcher
	var problems []*Problem
	for _, key := range slices.Sorted(maps.Keys(match)) {
		patterns, bad := parsePatterns(match[key], at(path, key))
		problems = append(problems, bad...)
		text := textOf(key)
		name, isHeader := strings.CutPrefix(key, headerPrefix)
		switch {
		case isHeader && name != "":
			all = append(all, matchHeader(name, patterns))
		case text != nil:
			all = append(all, func(m *outbox.Message) bool { return glob.Any(patterns, text(m)) })
		default:
			problems = append(problems, &Problem{Path: at(path, key), Reason: "unknown key of match", Allowed: []string{"type", "topic", "table", "group", "tenant", "header.NAME"}})
		}
	}
	switch len(all) {
	case 0:
		return nil, problems
	case 1:
		return all[0], problems
	}
	return func(m *outbox.Message) bool {
		for _, one := range all {
			if !one(m) {
				return false
			}
		}
		return true
	}, problems
}

func parsePatterns(texts []string, path []string) ([]glob.Pattern, []*Problem) {
	if len(texts) == 0 {
		return nil, []*Problem{{Path: path, Reason: "needs a glob, a list of globs, or a /regular expression/"}}
	}
	patterns := make([]glob.Pattern, 0, len(texts))
	var problems []*Problem
	for _, text := range texts {
		p, err := glob.Parse(text)
		if err != nil {
			problems = append(problems, &Problem{Path: path, Value: text, Reason: err.Error()})
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns, problems
}

// textOf returns what a match key looks at, or nil for unknown keys.
func textOf(key string) func(*outbox.Message) string {
	switch key {
	case "type":
		return func(m *outbox.Message) string { return m.Type }
	case "topic":
		return func(m *outbox.Message) string { return m.Topic }
	case "table":
		return func(m *outbox.Message) string { return m.Table }
	case "group":
		return func(m *outbox.Message) string { return m.GroupText() }
	case "tenant":
		return func(m *outbox.Message) string { return m.Tenant }
	}
	return nil
}

// matchHeader looks at each header of that name, for a name may stand more than once. Without any it does not match,
// not even *.
func matchHeader(name string, patterns []glob.Pattern) matcher {
	return func(m *outbox.Message) bool {
		for i := range m.Headers {
			if m.Headers[i].Name == name && glob.Any(patterns, string(m.Headers[i].Value)) {
				return true
			}
		}
		return false
	}
}
