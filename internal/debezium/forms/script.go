package forms

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// errEmptied means that a shell replaces a placeholder of Debezium's before Kafka Connect sees it.
var errEmptied = errors.New(`the shell replaces ${routedByValue} before Kafka Connect sees it: write \${routedByValue} in the script, or give the connector as GET /connectors/NAME/config answers`)

var (
	// separator begins what follows the body of a request in the file of an HTTP client, and request is one that sends a connector.
	separator = lazyregexp.New(`(?m)^(?:###|(?:GET|HEAD|POST|PUT|PATCH|DELETE)[ \t]).*$`)
	request   = lazyregexp.New(`(?m)^(?:POST|PUT)[ \t]+(?:\{\{[^{}]*\}\}|\S)*/connectors\b`)
)

// SendsConnector reports whether a text is the file of an HTTP client with a request that sends a connector.
func SendsConnector(text []byte) bool { return request().Match(text) }

// object begins the body of a request. Hurl has no empty line in front of it.
var object = lazyregexp.New(`(?m)^[ \t]*(?:\{\s*"|\[\s*\{)`)

// Requests returns the bodies of requests that send a connector, in the file of an HTTP client.
func Requests(text []byte) (bodies []string) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	lines := separator().FindAllIndex(text, -1)
	for i, at := range lines {
		end := len(text)
		if i+1 < len(lines) {
			end = lines[i+1][0]
		}
		if !request().Match(text[at[0]:at[1]]) {
			continue
		}
		behind := text[at[1]:end]
		if begin := object().FindIndex(behind); begin != nil {
			bodies = append(bodies, string(behind[begin[0]:]))
		} else if _, body, ok := bytes.Cut(behind, []byte("\n")); ok {
			bodies = append(bodies, string(body))
		}
	}
	return bodies
}

// sendsNone matches what a request that sends no connector has for its method or in its address.
var sendsNone = lazyregexp.New(`^(?:-X|--request=)?["']?(?:DELETE|GET)["']?$|/connector-plugins/`)

// Collected returns the bodies of requests that may send a connector, in a collection of Postman or an export of Insomnia.
func Collected(collection *Tree) (bodies []string) {
	collection.Walk(func(t *Tree) {
		of := t // Insomnia's
		if request := t.Get("request"); request != nil {
			of = request
		}
		if !sendsNone().MatchString(of.Is("method")) && !sendsNone().MatchString(of.Is("url")) && !sendsNone().MatchString(of.Is("url", "raw")) {
			bodies = append(bodies, t.Is("request", "body", "raw"), t.Is("body", "text"))
		}
	})
	return bodies
}

// errNone means that a script sends its connector only to have it deleted or checked.
var errNone = errors.New("the script sends it only to have it deleted or checked, or with a method that sends no connector")

// ScriptConnectors finds the connectors in a script of a shell: each word and here-document that is an object with a connector's class, or resources of
// Kubernetes. A variable becomes what the script sets it to, or a reference of shellReference's form.
func ScriptConnectors(script []byte) (all []*Tree, err error) {
	parsed, err := syntax.NewParser().Parse(bytes.NewReader(commands(script)), "")
	if err != nil {
		return nil, nil // perhaps a document that shows a command
	}
	none := false
	documents, values, left, changedBy := map[*syntax.Word]bool{}, assignments(parsed), 1000, changed(parsed)
	syntax.Walk(parsed, func(node syntax.Node) bool {
		s := shellText{values: values, left: &left}
		switch n := node.(type) {
		case *syntax.Stmt:
			call, ok := n.Cmd.(*syntax.CallExpr)
			if !ok || !slices.ContainsFunc(call.Args, func(arg *syntax.Word) bool { return sendsNone().MatchString(printed(arg)) }) {
				return true
			}
			none = none || strings.Contains(printed(n), "connector.class")
			return false
		case *syntax.CallExpr:
			inner := shellCommand(n.Args)
			if inner == nil {
				return true
			}
			s.parts(inner.Parts, "")
			found, wrong := ScriptConnectors([]byte(s.String()))
			all, err = append(all, found...), errors.Join(err, wrong)
			return true
		case *syntax.Word:
			if documents[n] || beginsWithVariable(n.Parts) {
				return true // the connector in a variable is found where the script sets that
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
			if n.Op == syntax.DashHdoc { // the shell takes the tabs away
				text := tabs().ReplaceAllString(s.String(), "")
				s.Reset()
				s.WriteString(text)
			}
		default:
			return true
		}
		found, wrong := connectorsIn(flagged().ReplaceAllString(s.String(), "{"))
		switch {
		case len(found) > 0 && changedBy[node] != "":
			err = errors.Join(err, errors.New("the script changes it with "+changedBy[node]+" before it sends it"))
		case len(found) > 0 && s.emptied:
			err = errors.Join(err, errEmptied)
		case wrong != nil:
			err = errors.Join(err, wrong)
		default:
			all = append(all, found...)
		}
		return true
	})
	if none && len(all) == 0 && err == nil {
		err = errNone
	}
	return all, err
}

// shellCommand is the text of a command that a shell of its own runs, as behind sh -c; nil if there is none.
func shellCommand(args []*syntax.Word) *syntax.Word {
	for i := range len(args) - 2 {
		if name := args[i].Lit(); (name == "sh" || name == "bash" || strings.HasSuffix(name, "/sh") || strings.HasSuffix(name, "/bash")) && commandFlag().MatchString(args[i+1].Lit()) {
			return args[i+2]
		}
	}
	return nil
}

// commandFlag has a shell run the next argument.
var commandFlag = lazyregexp.New(`^-[a-z]*c$`)

// flagged is what stands before an object in one word, as in wget --post-data={ or http config:={. tabs are those that lines begin with. manifest begins resources of Kubernetes, and resource is the kind of one that says what Debezium does.
var (
	flagged  = lazyregexp.New(`\A(?:--[\w-]+=|config:=)\s*\{`)
	tabs     = lazyregexp.New(`(?m)^\t+`)
	manifest = lazyregexp.New(`\A(?:\s|#[^\n]*\n|---[^\n]*\n)*(?:apiVersion|kind):`)
	resource = lazyregexp.New(`(?m)^[ \t]*kind:[ \t]*["']?(?:KafkaConnect(?:or|S2I)?|Connector|DebeziumServer)\b`)
)

// HoldsResource reports whether a text holds a resource of Kubernetes that says what Debezium does.
func HoldsResource(text []byte) bool { return resource().Match(text) }

// connectorsIn reads a text if it is a connector as JSON, or resources of Kubernetes as YAML.
func connectorsIn(text string) ([]*Tree, error) {
	if object := strings.TrimSpace(text); strings.HasPrefix(object, "{") && strings.Contains(object, `"connector.class"`) {
		quoted, part := quoteReferences(object)
		t, err := ReadJSON([]byte(quoted))
		switch {
		case err != nil && part != "":
			return nil, errors.New(Written(part) + " stands for a part of the JSON that the script sends, and tailbox does not know which")
		case err != nil:
			return nil, fmt.Errorf("in the JSON that the script sends: %w", err)
		}
		return []*Tree{t}, nil
	}
	if !manifest().MatchString(text) || !resource().MatchString(text) {
		return nil, nil
	}
	documents, err := ReadYAML([]byte(text))
	if err != nil {
		return nil, &YAMLError{err}
	}
	for _, t := range documents {
		t.Walk(func(t *Tree) { t.Line = 0 }) // it is none of the script's
	}
	return documents, nil
}

// A YAMLError says why the YAML in a script cannot be read.
type YAMLError struct{ error }

// Unwrap returns the decoder's error.
func (e *YAMLError) Unwrap() error { return e.error }

// beginsWithVariable reports whether a word begins with a variable.
func beginsWithVariable(parts []syntax.WordPart) bool {
	if len(parts) == 0 {
		return false
	}
	quoted, ok := parts[0].(*syntax.DblQuoted)
	_, variable := parts[0].(*syntax.ParamExp)
	return variable || ok && beginsWithVariable(quoted.Parts)
}

// quotedWord reports whether a part of a word stands in quotes: behind << that says that nothing is replaced.
func quotedWord(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, plain := p.(*syntax.Lit)
		return !plain || strings.Contains(lit.Value, `\`)
	})
}

// assignments are the words that a script sets variables to, of those that it sets to one word.
func assignments(script *syntax.File) map[string]*syntax.Word {
	values, texts, unknown := map[string]*syntax.Word{}, map[string]string{}, map[string]bool{}
	set := func(name string, word *syntax.Word) {
		text := ""
		if len(word.Parts) > 0 {
			text = printed(word)
		}
		before, again := texts[name]
		unknown[name] = unknown[name] || again && before != text
		values[name], texts[name] = word, text
	}
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.WordIter:
			unknown[n.Name.Value] = true
		case *syntax.CallExpr:
			if len(n.Args) > 0 && (n.Args[0].Lit() == "unset" || n.Args[0].Lit() == "read") {
				for _, arg := range n.Args[1:] {
					unknown[arg.Lit()] = true
				}
			}
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				set(n.Param.Value, &syntax.Word{Parts: []syntax.WordPart{n}})
			}
		case *syntax.Assign:
			switch {
			case n.Name == nil:
			case n.Append || n.Index != nil || n.Array != nil:
				unknown[n.Name.Value] = true
			case n.Value != nil:
				set(n.Name.Value, n.Value)
			case !n.Naked: // NAME=
				set(n.Name.Value, &syntax.Word{})
			}
		}
		return true
	})
	maps.DeleteFunc(values, func(name string, _ *syntax.Word) bool { return unknown[name] })
	return values
}

// printed is a part of a script as it is written there.
func printed(node syntax.Node) string {
	var b strings.Builder
	_ = syntax.NewPrinter().Print(&b, node) // into memory
	return b.String()
}

// SecretName is the name of a variable whose value is a secret.
var SecretName = lazyregexp.New(`(?i)PASS|SECRET|TOKEN|PWD`)

// shellText is the text that a shell makes of a word.
type shellText struct {
	strings.Builder
	// values are the words that the script sets variables to, and following those whose words are being written.
	values    map[string]*syntax.Word
	following []string
	// left bounds how many variables are followed, because each can name the next one twice.
	left *int
	// open: an argument or a command decides a part of the text.
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
			s.WriteString(shellReference("!", printed(p), ""))
		}
	}
}

// variable writes what a variable stands for: its text if the script sets it to one, or a reference with its default.
func (s *shellText) variable(p *syntax.ParamExp) {
	name, sign, word, ok := expansion(p)
	if !ok {
		s.open = true
		s.WriteString(shellReference("!", printed(p), ""))
		return
	}
	s.emptied = s.emptied || name == "routedByValue"
	if SecretName().MatchString(name) {
		from, sets := s.secret(name)
		if sets || word != nil {
			from = setSecret + from
		}
		s.WriteString(shellReference(from, "", "")) // neither its text nor its default
		return
	}
	byDefault := s.byDefault(name, word)
	text, known := s.follow(name)
	switch {
	case !known:
		s.open = s.open || !syntax.ValidName(name)
		s.WriteString(shellReference(name, sign, byDefault))
	case text == "" && sign == ":-":
		s.WriteString(byDefault)
	case plainReference().MatchString(text) && sign != "":
		s.WriteString(strings.TrimSuffix(text, "}") + sign + byDefault + "}")
	default:
		s.WriteString(text)
	}
}

// expansion takes a reference of the shell apart; sign is :- or - if it has a default. One that the shell works something out with is not read.
func expansion(p *syntax.ParamExp) (name, sign string, byDefault *syntax.Word, ok bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return "", "", nil, false
	}
	name = p.Param.Value
	if p.Exp == nil {
		return name, "", nil, true
	}
	switch p.Exp.Op {
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return name, "", nil, true
	case syntax.DefaultUnset, syntax.AssignUnset:
		return name, "-", p.Exp.Word, true
	case syntax.DefaultUnsetOrNull, syntax.AssignUnsetOrNull:
		return name, ":-", p.Exp.Word, true
	}
	return "", "", nil, false
}

// byDefault is the text of a variable's default.
func (s *shellText) byDefault(name string, word *syntax.Word) string {
	if word == nil {
		return ""
	}
	own := s.within(name)
	own.parts(word.Parts, "")
	return balanced(own.String())
}

// within is an empty text for what a variable stands for.
func (s *shellText) within(name string) shellText {
	return shellText{values: s.values, left: s.left, following: append(slices.Clone(s.following), name)}
}

// follow returns what the script sets a variable to. One that depends on an argument or a command is left to the environment, and keeps the default of
// an argument.
func (s *shellText) follow(name string) (text string, known bool) {
	word := s.values[name]
	if word == nil || slices.Contains(s.following, name) || *s.left == 0 {
		return "", false
	}
	*s.left--
	own := s.within(name)
	if only := onlyVariable(word.Parts); only != nil {
		if argument, sign, byDefault, ok := expansion(only); ok && sign != "" && !syntax.ValidName(argument) {
			return shellReference(name, sign, own.byDefault(name, byDefault)), true
		}
	}
	own.parts(word.Parts, "")
	s.emptied = s.emptied || own.emptied
	return own.String(), !own.open
}

// secret is the variable that the script takes a secret from. sets reports whether the script sets that one, or has a default for it.
func (s *shellText) secret(name string) (from string, sets bool) {
	for range min(len(s.values), 10) {
		word := s.values[name]
		if word == nil {
			return name, sets
		}
		only := onlyVariable(word.Parts)
		if only == nil {
			return name, true
		}
		from, _, byDefault, ok := expansion(only)
		if !ok || !syntax.ValidName(from) {
			return name, true
		}
		if sets = sets || byDefault != nil; from == name {
			return name, sets
		}
		name = from
	}
	return name, sets
}

// onlyVariable is the one that a word is, perhaps in quotes; nil for other words.
func onlyVariable(parts []syntax.WordPart) *syntax.ParamExp {
	if len(parts) != 1 {
		return nil
	}
	switch p := parts[0].(type) {
	case *syntax.ParamExp:
		return p
	case *syntax.DblQuoted:
		return onlyVariable(p.Parts)
	}
	return nil
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

// onlyName is a reference to a variable of a script, perhaps with a default. assigned is a value that a script sets one to, or a loop.
var (
	onlyName = lazyregexp.New(`^\$\{?(\w+)(?:\}|:?-([^{}$]+)\})?$`)
	assigned = lazyregexp.New(`(?m)(?:^|[;\s])(?:(\w+)=|for[ \t]+(\w+)[ \t]+in[ \t]+)["']?([^"'\s;]*)`)
)

// Followed is the file that a script sends by a variable, if the script sets that to one text or says a default; else it is the variable.
func Followed(file string, script []byte) string {
	name := onlyName().FindStringSubmatch(file)
	if name == nil {
		return file
	}
	values := []string{}
	for _, m := range assigned().FindAllSubmatch(script, -1) {
		if value := string(m[3]); (string(m[1]) == name[1] || string(m[2]) == name[1]) && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	if len(values) == 1 && values[0] != "" {
		if of := onlyName().FindStringSubmatch(values[0]); of != nil && of[2] != "" {
			return of[2]
		} else if !strings.Contains(values[0], "$") {
			return values[0]
		}
	}
	return file
}
