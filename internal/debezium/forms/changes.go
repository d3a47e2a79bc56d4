package forms

import (
	"regexp"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

var (
	// asItIs is a command that takes a document from a pipe, and changes nothing in it. sender sends it, and formatting is an argument of jq that changes no option.
	asItIs     = regexp.MustCompile(`^(?:cat|curl|docker|docker-compose|echo|https?|kubectl|nerdctl|oc|podman|printf|ssh|sudo|tee|wget|xhs?)$`)
	sender     = regexp.MustCompile(`^(?:curl|https?|kubectl|oc|wget|xhs?)$`)
	formatting = regexp.MustCompile(`^(?:-[crSM]+|--(?:compact-output|sort-keys|tab)|["']?\.(?:config)?["']?)$`)
)

// changes are the commands by which a script changes a text before it sends it.
type changes struct {
	by map[syntax.Node]string // by the here-document or the word that the text stands in
	// variables are those whose text is changed on its way, each with the command.
	variables map[string]string
}

// changed returns the here-documents and the words that a script changes before it sends them, each with the command.
func changed(script *syntax.File) map[syntax.Node]string {
	c := changes{by: map[syntax.Node]string{}, variables: map[string]string{}}
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			c.pipe(n)
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
		if n, ok := node.(*syntax.Assign); ok && n.Name != nil && n.Value != nil && c.variables[n.Name.Value] != "" {
			c.mark(n.Value, c.variables[n.Name.Value])
		}
		return true
	})
	return c.by
}

// pipe notes what a pipe changes: here-documents, and also words if it leads to a command that sends them. What comes behind the sending command
// changes the answer.
func (c *changes) pipe(pipe *syntax.BinaryCmd) {
	all := stages(&syntax.Stmt{Cmd: pipe})
	sends := slices.IndexFunc(all, func(s *syntax.Stmt) bool { return calls(s, sender) })
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

// rewritten notes a variable that is set to its own text, changed.
func (c *changes) rewritten(a *syntax.Assign) {
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
	if !ok || len(call.Args) == 0 || asItIs.MatchString(call.Args[0].Lit()) || call.Args[0].Lit() == "jq" && onlyFormats(call.Args[1:]) {
		return ""
	}
	return call.Args[0].Lit()
}

// onlyFormats reports whether jq does no more than format: its filter is a dot.
func onlyFormats(args []*syntax.Word) bool {
	return !slices.ContainsFunc(args, func(arg *syntax.Word) bool { return !formatting.MatchString(printed(arg)) })
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
