package debezium

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// errEmptied means that a shell replaces a placeholder of Debezium's before Kafka Connect sees it.
var errEmptied = errors.New(`the shell replaces ${routedByValue} before Kafka Connect sees it: write \${routedByValue} in the script, or give the connector as GET /connectors/NAME/config answers`)

var (
	// separator begins what follows the body of a request in the file of an HTTP client, and request is one that sends a connector.
	separator = regexp.MustCompile(`(?m)^(?:###|(?:GET|HEAD|POST|PUT|PATCH|DELETE)[ \t]).*$`)
	request   = regexp.MustCompile(`(?m)^(?:POST|PUT)[ \t]+\S*/connectors\b`)
)

// requests returns the bodies of requests that send a connector, in the file of an HTTP client.
func requests(text []byte) (bodies []string) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	lines := separator.FindAllIndex(text, -1)
	for i, at := range lines {
		end := len(text)
		if i+1 < len(lines) {
			end = lines[i+1][0]
		}
		if _, body, ok := bytes.Cut(text[at[1]:end], []byte("\n\n")); ok && request.Match(text[at[0]:at[1]]) {
			bodies = append(bodies, string(body))
		}
	}
	return bodies
}

// scriptConnectors finds the connectors in a script of a shell: each word and here-document that is an object with a connector's class. A variable that the
// script does not set to one text becomes a reference to the environment.
func scriptConnectors(script []byte) (all []*tree, err error) {
	parsed, err := syntax.NewParser().Parse(bytes.NewReader(script), "")
	if err != nil {
		return nil, nil // perhaps a document that shows a command
	}
	documents, values := map[*syntax.Word]bool{}, assignments(parsed)
	syntax.Walk(parsed, func(node syntax.Node) bool {
		s := shellText{values: values}
		switch n := node.(type) {
		case *syntax.Word:
			if documents[n] {
				return true
			}
			s.parts(n.Parts, "")
		case *syntax.Redirect:
			if n.Hdoc == nil {
				return true
			}
			documents[n.Hdoc] = true
			if quotedWord(n.Word) {
				s.WriteString(n.Hdoc.Lit())
			} else {
				s.parts(n.Hdoc.Parts, "\\$`")
			}
		default:
			return true
		}
		text := strings.TrimSpace(s.String())
		if !strings.HasPrefix(text, "{") || !strings.Contains(text, `"connector.class"`) {
			return true
		}
		t, wrong := readJSON([]byte(text))
		switch {
		case wrong != nil:
			err = errors.Join(err, wrong)
		case s.emptied:
			err = errors.Join(err, errEmptied)
		default:
			all = append(all, t)
		}
		return true
	})
	return all, err
}

// quotedWord reports whether a part of a word stands in quotes: behind << that says that nothing is replaced.
func quotedWord(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, plain := p.(*syntax.Lit)
		return !plain || strings.Contains(lit.Value, `\`)
	})
}

// assignments are the variables that a script sets, each to one text: ${NAME:-text} is its text. Secrets are left to the environment.
func assignments(script *syntax.File) map[string]string {
	values, unknown := map[string]string{}, map[string]bool{}
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.WordIter:
			unknown[n.Name.Value] = true
		case *syntax.Assign:
			if n.Name == nil {
				return true
			}
			var s shellText
			if n.Value != nil {
				s.parts(n.Value.Parts, "")
			}
			name, text := n.Name.Value, s.String()
			before, again := values[name]
			unknown[name] = unknown[name] || n.Append || n.Index != nil || n.Array != nil || n.Value == nil || s.open || again && before != text || secretName.MatchString(name)
			values[name] = text
		}
		return true
	})
	maps.DeleteFunc(values, func(name, _ string) bool { return unknown[name] })
	return values
}

var secretName = regexp.MustCompile(`(?i)PASS|SECRET|TOKEN|PWD`)

// shellText is the text that a shell makes of a word.
type shellText struct {
	strings.Builder
	// values are the variables whose text is known.
	values map[string]string
	// open: there is a variable or a command whose text is not known.
	open bool
	// emptied: a variable of the shell has the name of Debezium's placeholder.
	emptied bool
}

// parts writes the parts of a word. within are the characters that a backslash can stand before; "" is all of them, outside of quotes.
func (s *shellText) parts(parts []syntax.WordPart, within string) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			s.literal(p.Value, within)
		case *syntax.SglQuoted:
			s.WriteString(p.Value)
		case *syntax.DblQuoted:
			s.parts(p.Parts, "\\$`\"")
		case *syntax.ParamExp:
			s.variable(p)
		default:
			s.open = true
			_ = syntax.NewPrinter().Print(s, p) // into memory
		}
	}
}

// variable writes the text of a variable if it is known, else a reference to the environment.
func (s *shellText) variable(p *syntax.ParamExp) {
	if p.Param == nil {
		s.open = true
		return
	}
	name := p.Param.Value
	s.emptied = s.emptied || name == "routedByValue"
	if value, known := s.values[name]; known {
		s.WriteString(value)
		return
	}
	if e := p.Exp; e != nil && e.Word != nil && (e.Op == syntax.DefaultUnset || e.Op == syntax.DefaultUnsetOrNull) && !secretName.MatchString(name) {
		s.parts(e.Word.Parts, "")
		return
	}
	s.open = true
	if !syntax.ValidName(name) { // an argument, which no environment has
		name = "$" + name
	}
	s.WriteString("${env:" + name + "}")
}

func (s *shellText) literal(text, within string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			switch next := text[i+1]; {
			case next == '\n':
				i++
				continue
			case within == "" || strings.IndexByte(within, next) >= 0:
				i++
			}
		}
		s.WriteByte(text[i])
	}
}
