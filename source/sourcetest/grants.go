package sourcetest

import "strings"

// SingleGrants splits a script of grants into statements that grant one privilege on one thing.
func SingleGrants(script string) (grants []string) {
	for line := range strings.SplitSeq(script, "\n") {
		what, on, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "GRANT "), ";"), " ON ")
		if !ok {
			continue
		}
		for p := range strings.SplitSeq(what, ", ") {
			grants = append(grants, "GRANT "+p+" ON "+on)
		}
	}
	return grants
}
