package debezium

import (
	"cmp"
	"maps"
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

// Report returns what becomes of each option, in the order of the files, and last what is missing. Where Import fails, at least one is refused. See Import.
func Report(files []File, env func(string) (string, bool), names []string, describe Describe, checks ...Check) []Option {
	c := converted(files, env, names, describe, checks)
	var all []Option
	told := map[*setting]bool{}
	tell := func(settings ...*setting) {
		for _, s := range settings {
			if !told[s] {
				told[s] = true
				all = append(all, c.fate(s))
			}
		}
	}
	for _, l := range c.layers {
		tell(l.settings...)
	}
	others := slices.Clone(c.out.idle)
	for _, s := range c.settings {
		if strings.HasPrefix(s.key, "$") {
			others = append(others, s)
		}
	}
	others = append(others, c.referred...)
	slices.SortFunc(others, func(a, b *setting) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	tell(others...)
	for _, p := range c.problems {
		if p.of == nil {
			all = append(all, Option{Key: p.Key, Fate: Refused, How: p.Reason})
		} else {
			tell(p.of)
		}
	}
	return all
}

// fate is what becomes of a setting.
func (c *conversion) fate(s *setting) Option {
	o := Option{Key: s.key, Fate: Kept, How: strings.Join(s.made, ", ")}
	switch at := slices.IndexFunc(c.problems, func(p *Problem) bool { return p.of == s }); {
	case at >= 0:
		o.Fate, o.How = Refused, c.problems[at].Reason
	case s.idle != "":
		o.Fate, o.How = NoEffect, s.idle
	case o.How == "" && c.kind == "":
		o.Fate, o.How = Refused, "tailbox has not judged it, because of what else is refused"
	case o.How == "":
		o.How = "it decides others"
	}
	return o
}

// listUses has the report tell the variables of files that options refer to, in place of what was said of them before that was known.
func (c *conversion) listUses() {
	all, options := slices.Collect(maps.Values(c.settings)), map[*setting]*setting{}
	for _, l := range c.layers {
		all = append(all, l.settings...)
	}
	for _, s := range all {
		options[s], options[s.origin] = s, s
	}
	for name, by := range c.variables.uses {
		referred := &setting{key: "$" + name}
		own, counts := false, false
		for _, s := range by {
			option := options[s]
			own = own || s.key == name || s.key == referred.key
			counts = counts || option != nil || c.variables.uses[s.key] != nil
			if option != nil {
				referred.made, referred.idle = append(referred.made, option.made...), cmp.Or(referred.idle, option.idle)
			}
		}
		if len(referred.made) > 0 {
			referred.idle = ""
		}
		if own || counts {
			c.out.idle = slices.DeleteFunc(c.out.idle, func(s *setting) bool { return s.key == referred.key })
		}
		if counts && !own {
			c.referred = append(c.referred, referred)
		}
	}
}
