package debezium

import (
	"slices"
	"strings"
)

// A Fate is what becomes of an option of Debezium.
type Fate string

// Fates.
const (
	Kept     Fate = "kept"
	NoEffect Fate = "no effect"
	Refused  Fate = "refused"
)

// An Option is an option that a file or the environment has, and what becomes of it. How names keys of tailbox.yaml, or says why. Its value is not told: it may be secret.
type Option struct {
	Key  string
	Fate Fate
	How  string
}

// Report returns what becomes of each option, in the order of the files, and last what is missing. See Import.
func Report(files []File, env func(string) (string, bool), names []string, describe Describe) []Option {
	c := converted(files, env, names, describe)
	var all []Option
	told := map[string]bool{}
	tell := func(key string) {
		if told[key] {
			return
		}
		told[key] = true
		o := Option{Key: key, Fate: Kept, How: strings.Join(c.out.made[key], ", ")}
		if why, ok := c.out.idle[key]; ok {
			o.Fate, o.How = NoEffect, why
		}
		if i := slices.IndexFunc(c.problems, func(p *Problem) bool { return p.Key == key }); i >= 0 {
			o.Fate, o.How = Refused, c.problems[i].Reason
		}
		if o.Fate == Kept && o.How == "" {
			o.How = "it decides others"
			if c.kind == "" {
				o.Fate, o.How = Refused, "nobody looked at it: tailbox cannot read from this connector"
			}
		}
		all = append(all, o)
	}
	filed := map[*setting]string{}
	for key, s := range c.settings {
		filed[s] = key
	}
	for _, l := range c.layers {
		for i, s := range l.settings {
			key, counts := filed[s]
			switch {
			case slices.ContainsFunc(l.settings[i+1:], func(later *setting) bool { return later.key == s.key }):
				all = append(all, Option{Key: s.key, Fate: NoEffect, How: "a later line sets it again"})
			case len(filed) > 0 && !counts:
				all = append(all, Option{Key: s.key, Fate: NoEffect, How: "another place sets it, and that counts"})
			case strings.HasPrefix(key, unusedPrefix):
				all = append(all, Option{Key: s.key, Fate: NoEffect, How: notMixed})
			default:
				tell(s.key)
			}
		}
	}
	for _, l := range c.layers {
		for _, s := range l.settings {
			told[s.key] = true
		}
	}
	var variables []string
	for _, s := range c.settings {
		if strings.HasPrefix(s.key, "$") {
			variables = append(variables, s.key)
		}
	}
	for key := range c.out.idle {
		variables = append(variables, key)
	}
	slices.Sort(variables)
	for _, key := range variables {
		tell(key)
	}
	for _, p := range c.problems {
		tell(p.Key)
	}
	return all
}
