package debezium

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// errEmptied means that a shell replaces a placeholder of Debezium's before Kafka Connect sees it.
var errEmptied = errors.New(`the shell replaces ${routedByValue} before Kafka Connect sees it: write \${routedByValue} in the script, or give the connector as GET /connectors/NAME/config answers`)

// scriptConnectors finds the connectors in a script of a shell: each word and here-document that is an object with a connector's class. A variable of the
// shell stays as ${NAME}.
func scriptConnectors(script []byte) (all []*tree, err error) {
	parsed, err := syntax.NewParser().Parse(bytes.NewReader(script), "")
	if err != nil {
		return nil, nil // perhaps a document that shows a command
	}
	documents := map[*syntax.Word]bool{}
	syntax.Walk(parsed, func(node syntax.Node) bool {
		var s shellText
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
			within := "\\$`"
			if quotedWord(n.Word) {
				within = literally
			}
			s.parts(n.Hdoc.Parts, within)
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

// literally: no backslash has a meaning.
const literally = "literally"

// shellText is the text that a shell makes of a word.
type shellText struct {
	strings.Builder
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
			s.emptied = s.emptied || p.Param != nil && p.Param.Value == "routedByValue"
			if p.Short {
				s.WriteString("${" + p.Param.Value + "}")
				continue
			}
			_ = syntax.NewPrinter().Print(s, p) // into memory
		default:
			_ = syntax.NewPrinter().Print(s, p)
		}
	}
}

func (s *shellText) literal(text, within string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && within != literally && i+1 < len(text) {
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
