package debezium

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
)

// chosen is the name of an option that says which connector or which router to run, or of its variable.
var chosen = regexp.MustCompile(`(?i)^(?:_[a-z0-9]+_)?(?:debezium[._])?(?:source[._])?(?:connector[._]class|transforms[._][^.\s]+[._]type)$`)

// chosenOptions counts the options that say which connector or which router to run.
func (c *conversion) chosenOptions() (n int) {
	for _, l := range c.layers {
		for _, s := range l.settings {
			if name, _ := inProfile(s.key); chosen.MatchString(name) {
				n++
			}
		}
	}
	for name := range c.variables.given {
		if optionVariable.MatchString(name) && chosen.MatchString(name) {
			n++
		}
	}
	return n
}

// An unread file holds a connector in a form that is not read.
type unread struct {
	name, why string
}

// read reads the options of a file, and notes if it holds a connector that was not found.
func (c *conversion) read(f File) {
	before, problems, others := c.chosenOptions(), len(c.problems), len(c.unread)
	l, text := c.readForm(f)
	known, _ := forms.Foreign(l.name, text)
	named := slices.ContainsFunc(c.problems[problems:], func(p *Problem) bool {
		return p.Key == "form" || known == "" && (p.Key == "JSON" || p.Key == "YAML")
	})
	if c.chosenOptions() == before && len(c.unread) == others && !named && forms.Declares(text) && !onlyVariables(l.name, text) {
		c.unread = append(c.unread, unread{l.name, forms.WhyUnread(l.name, text)})
		l.settings = nil // words of that form
		c.problems = append(c.problems[:problems], slices.DeleteFunc(slices.Clone(c.problems[problems:]), func(p *Problem) bool {
			return p.Reason == noOptionValue || p.Key == "JSON" || p.Key == "YAML"
		})...)
		return
	}
	if told := c.problems[problems:]; c.chosenOptions() == before && (len(told) > 1 || known != "" && len(told) > 0) && !slices.ContainsFunc(told, func(p *Problem) bool { return p.Reason != noOptionValue }) {
		why := "it holds no options: " + formsRead // but the settings of another program, say
		if known != "" {
			why = forms.WhyUnread(l.name, text)
		}
		l.settings, c.problems = nil, c.problems[:problems]
		c.form(l, why)
	}
}

// onlyVariables reports whether a file holds nothing but variables, of which none is a document. One may be the class of a connector.
func onlyVariables(name string, text []byte) bool {
	return readVariables(name, text) != nil && !bytes.Contains(text, []byte("{\""))
}

// unfound names the files that hold a connector in a form that is not read, if no other file holds one. Nothing else is said of them. Beside another
// connector they are listed.
func (c *conversion) unfound() {
	if _, set := c.variables.get(variableOf(serverPrefix + "source.connector.class")); set || c.chosenOptions() > 0 {
		for _, u := range c.unread {
			c.out.ignored(&setting{key: "form", file: u.name}, "another file holds the connector; without that file: "+u.why)
		}
		return
	}
	for _, u := range c.unread {
		if slices.ContainsFunc(c.problems, func(p *Problem) bool { return p.file == u.name && strings.HasPrefix(p.Key, "$") }) {
			continue // a variable of it is refused
		}
		c.form(&layer{name: u.name}, u.why)
	}
}
