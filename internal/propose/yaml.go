package propose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// YAML is the proposal as a part of the configuration: comments say why, and what has to be answered.
func (p *Proposal) YAML() string {
	var b strings.Builder
	if len(p.Questions) > 0 {
		b.WriteString("# Please answer before tailbox runs:\n")
		for i, question := range p.Questions {
			fmt.Fprintf(&b, "# %d. %s\n", i+1, comment(question))
		}
	}
	fmt.Fprintf(&b, "source:\n  tables:\n    - name: %s\n      shape: %s\n", yamlText(p.Table), p.Shape)
	block := func(key string, settings []Setting, indent string) {
		if len(settings) == 0 {
			return
		}
		if key != "" {
			fmt.Fprintf(&b, "      %s:\n", key)
		}
		for _, s := range settings {
			fmt.Fprintf(&b, "%s%s: %s", indent, s.Key, s.Value)
			if s.Why != "" {
				b.WriteString("  # " + comment(s.Why))
			}
			b.WriteByte('\n')
		}
	}
	block("columns", p.Columns, "        ")
	block("words", p.Words, "        ")
	block("", p.Rest, "      ")
	block("set", p.Set, "        ")
	return b.String()
}

// comment keeps a text within its line.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
}

var bareText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// yamlText is a text as YAML takes it for one.
func yamlText(text string) string {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
	default:
		if bareText.MatchString(text) {
			return text
		}
	}
	if strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		return strconv.Quote(text)
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// flow is a list of texts on one line.
func flow(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = yamlText(text)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// quoted is the name of a column as the configuration has it.
func quoted(name string) string {
	if strings.ContainsAny(name, "\"`") {
		return yamlText(`"` + strings.ReplaceAll(name, `"`, `""`) + `"`)
	}
	return yamlText(name)
}
