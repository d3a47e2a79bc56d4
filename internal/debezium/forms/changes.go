package forms

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

var (
	// asItIs is a command that takes a document from a pipe, and changes nothing in it. sender sends it.
	asItIs = lazyregexp.New(`^(?:cat|curl|docker|docker-compose|echo|https?|kubectl|nerdctl|oc|podman|printf|ssh|sudo|tee|wget|xhs?)$`)
	sender = lazyregexp.New(`^(?:curl|https?|kubectl|oc|wget|xhs?)$`)
	// inPlace is a command that changes a file where it is, and directive is one of printf.
	inPlace   = lazyregexp.New(`^(?:g?sed|perl|yq)\s(?:\S+\s)*?(?:-\w*i|--in-place)`)
	directive = lazyregexp.New(`%[-0-9.]*[sdbqiux]`)
	// rewriting is a command within that of another shell.
	rewriting = lazyregexp.New(`\b(?:sed|awk|perl|envsubst|yq)\b`)
	// oneLine is a command that takes the ends of lines away, and formatting is an argument of jq that changes no option.
	oneLine    = lazyregexp.New(`^tr (?:-d )?["']?(?:\\[nrt])+["']?(?: ' ')?$`)
	formatting = lazyregexp.New(`^(?:-[crSM]+|--(?:compact-output|sort-keys|tab)|["']?\.(?:config)?["']?)$`)
)

// changes are the commands by which a script changes a text before it sends it.
type changes struct {
	by map[syntax.Node]string // by the here-document or the word that the text stands in
	// variables are those whose text is changed on its way, each with the command.
	variables map[string]string
	// files are those whose text is changed. sent are the variables and, behind an @, the files that commands send.
	files map[string]string
	sent  map[string]bool
}

// changed returns the here-documents and the words that a script changes before it sends them, each with the command.
func changed(script *syntax.File) map[syntax.Node]string {
	c := changes{by: map[syntax.Node]string{}, variables: map[string]string{}, files: map[string]string{}, sent: map[string]bool{}}
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			if calls(n, sender()) {
				c.sends(n.Args)
			}
		case *syntax.BinaryCmd:
			all := stages(&syntax.Stmt{Cmd: n})
			for _, s := range all[:max(sending(all), 0)] {
				if call, ok := s.Cmd.(*syntax.CallExpr); ok {
					c.sends(call.Args)
				}
			}
		}
		return true
	})
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			c.pipe(n)
		case *syntax.Stmt:
			c.file(n, inPlace().MatchString(printed(n.Cmd)))
			if call, ok := n.Cmd.(*syntax.CallExpr); ok && shellCommand(call.Args) != nil {
				c.within(n)
			}
		case *syntax.CallExpr:
			if len(n.Args) > 2 && n.Args[0].Lit() == "printf" && directive().MatchString(printed(n.Args[1])) {
				c.mark(n.Args[1], "printf")
			}
		case *syntax.ParamExp:
			if n.Param != nil && n.Repl != nil {
				c.variables[n.Param.Value] = printed(n)
			}
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil {
				c.rewritten(n)
			}
		}
		return true
	})
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && c.variables[n.Name.Value] != "" {
				c.mark(n.Value, c.variables[n.Name.Value])
			}
		case *syntax.Stmt:
			c.written(n)
		}
		return true
	})
	return c.by
}

// sends notes the variables and files that a command sends, and what its substitutions change.
func (c *changes) sends(args []*syntax.Word) {
	for _, arg := range args {
		text := strings.Trim(printed(arg), `"'`)
		if only := onlyVariable(arg.Parts); only != nil && only.Param != nil {
			c.sent[only.Param.Value] = true
		} else if at := strings.Index(text, "@"); at >= 0 {
			c.sent[text[at:]] = true
		} else if strings.HasPrefix(text, "$(") && strings.HasSuffix(text, ")") {
			c.within(arg)
		}
	}
}

// within notes what the commands of a substitution, or of another shell, change.
func (c *changes) within(substitution syntax.Node) {
	syntax.Walk(substitution, func(node syntax.Node) bool {
		s, ok := node.(*syntax.Stmt)
		if !ok {
			return true
		}
		all := stages(s)
		for i, one := range all {
			if by := changer(one); by != "" {
				for _, from := range all[:i] {
					c.mark(from, by)
				}
				for _, read := range one.Redirs {
					c.mark(read, by)
				}
			}
		}
		return true
	})
}

// file notes the files that a command changes: in place, or on the way to one that is sent.
func (c *changes) file(s *syntax.Stmt, sent bool) {
	by := changer(s)
	if by == "" {
		return
	}
	for _, r := range s.Redirs {
		sent = sent || r.Op == syntax.RdrOut && c.sent["@"+printed(r.Word)]
	}
	if !sent {
		return
	}
	for _, arg := range s.Cmd.(*syntax.CallExpr).Args[1:] {
		c.files[printed(arg)] = by
	}
	for _, r := range s.Redirs {
		if r.Op == syntax.RdrIn {
			c.files[printed(r.Word)] = by
		}
	}
}

// written notes the here-document that a command writes into a file which is changed.
func (c *changes) written(s *syntax.Stmt) {
	for _, to := range s.Redirs {
		if by := c.files[printed(to.Word)]; by != "" && to.Op == syntax.RdrOut {
			c.mark(s, by)
		}
	}
}

// pipe notes what a pipe changes: here-documents, and also words if it leads to a command that sends them. What comes behind the sending command
// changes the answer.
func (c *changes) pipe(pipe *syntax.BinaryCmd) {
	all := stages(&syntax.Stmt{Cmd: pipe})
	sends := sending(all)
	for i, s := range all {
		by := changer(s)
		switch {
		case sends >= 0 && i >= sends:
			return
		case by == "":
			continue
		}
		for _, read := range s.Redirs { // as by <<
			c.mark(read, by)
		}
		c.file(s, sends >= 0)
		for _, from := range all[:i] {
			if sends >= 0 {
				c.mark(from, by)
				continue
			}
			syntax.Walk(from, func(node syntax.Node) bool {
				if r, ok := node.(*syntax.Redirect); ok && r.Hdoc != nil {
					c.by[r] = by
				}
				return true
			})
		}
	}
}

// stages are the statements of a pipe; one that is no pipe is its only one.
func stages(s *syntax.Stmt) []*syntax.Stmt {
	if pipe, ok := s.Cmd.(*syntax.BinaryCmd); ok && (pipe.Op == syntax.Pipe || pipe.Op == syntax.PipeAll) {
		return append(stages(pipe.X), stages(pipe.Y)...)
	}
	return []*syntax.Stmt{s}
}

// sending is the place of the first statement that sends what it reads; -1 if none does.
func sending(all []*syntax.Stmt) int {
	return slices.IndexFunc(all, func(s *syntax.Stmt) bool { return calls(s, sender()) })
}

// rewritten notes a variable that is set to its own text, changed.
func (c *changes) rewritten(a *syntax.Assign) {
	if c.sent[a.Name.Value] {
		c.within(a.Value)
	}
	syntax.Walk(a.Value, func(node syntax.Node) bool {
		pipe, ok := node.(*syntax.BinaryCmd)
		if !ok {
			return true
		}
		by := changer(pipe.Y)
		syntax.Walk(pipe.X, func(node syntax.Node) bool {
			if of, ok := node.(*syntax.ParamExp); ok && by != "" && of.Param != nil && of.Param.Value == a.Name.Value {
				c.variables[a.Name.Value] = by
			}
			return true
		})
		return true
	})
}

// mark notes the words, here-documents and variables of a part of a script.
func (c *changes) mark(within syntax.Node, by string) {
	syntax.Walk(within, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Redirect:
			c.by[n] = by
		case *syntax.Word:
			c.by[n] = by
			if only := onlyVariable(n.Parts); only != nil && only.Param != nil {
				c.variables[only.Param.Value] = by
			}
		}
		return true
	})
}

// changer is the name of the command that a statement calls; "" if it sends what it reads as it is.
func changer(s *syntax.Stmt) string {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if ok {
		if inner := shellCommand(call.Args); inner != nil {
			return rewriting().FindString(printed(inner))
		}
	}
	if !ok || len(call.Args) == 0 || asItIs().MatchString(call.Args[0].Lit()) || oneLine().MatchString(printed(call)) || call.Args[0].Lit() == "jq" && onlyFormats(call.Args[1:]) {
		return ""
	}
	return call.Args[0].Lit()
}

// onlyFormats reports whether jq does no more than format: its filter is a dot.
func onlyFormats(args []*syntax.Word) bool {
	return !slices.ContainsFunc(args, func(arg *syntax.Word) bool { return !formatting().MatchString(printed(arg)) })
}

// calls reports whether a part of a script calls a command.
func calls(within syntax.Node, name *regexp.Regexp) (found bool) {
	syntax.Walk(within, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		found = found || ok && slices.ContainsFunc(call.Args, func(arg *syntax.Word) bool { return name.MatchString(arg.Lit()) })
		return !found
	})
	return found
}
