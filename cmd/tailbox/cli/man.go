package cli

import (
	"context"
	"flag"
	"io"
	"strings"
)

// NewMan is the command man. root makes the command line that the page is about.
func NewMan(root func() *Command) *Command {
	return &Command{Name: "man", About: "prints the manual page", Long: "It is in the language of man(1), and made of what -h shows.",
		Example: "tailbox man > /usr/local/share/man/man1/tailbox.1",
		Run: func(_ context.Context, sh *Shell, _ []string) error {
			var b strings.Builder
			top := root()
			b.WriteString(".TH " + strings.ToUpper(top.Name) + " 1\n.SH NAME\n" + roff(top.Name) + ` \- ` + roff(top.About) + "\n.SH SYNOPSIS\n.B " + roff(top.Name) + "\nCOMMAND [flags]\n")
			if top.Long != "" {
				b.WriteString(".SH DESCRIPTION\n" + roff(top.Long) + "\n")
			}
			b.WriteString(".SH COMMANDS\n")
			top.manual(&b, top.Name)
			_, err := io.WriteString(sh.Out, b.String())
			return err
		}}
}

// manual writes a section for each command.
func (c *Command) manual(b *strings.Builder, path string) {
	for _, sub := range c.Sub {
		at := path + " " + sub.Name
		b.WriteString(".SS " + roff(strings.TrimSpace(at+" "+sub.Args)) + "\n" + roff(sub.About) + ".\n")
		if sub.Long != "" {
			b.WriteString(".PP\n.nf\n" + roff(sub.Long) + "\n.fi\n")
		}
		if sub.Run != nil && sub.Flags != nil {
			fs := flag.NewFlagSet("", flag.ContinueOnError)
			sub.Flags(fs)
			fs.VisitAll(func(f *flag.Flag) {
				value, text := flag.UnquoteUsage(f)
				o := option{name: f.Name}
				b.WriteString(".TP\n.B " + roff(strings.TrimSpace(o.dashed()+" "+value)) + "\n" + roff(text+byDefault(f)) + "\n")
			})
		}
		if sub.Example != "" {
			b.WriteString(".PP\nExample:\n.nf\n" + roff(sub.Example) + "\n.fi\n")
		}
		sub.manual(b, at)
	}
}

// roff keeps a text from being read as requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
