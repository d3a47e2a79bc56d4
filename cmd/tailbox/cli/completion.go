package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// NewCompletion is the command completion. root makes the command line that is completed.
func NewCompletion(root func() *Command) *Command {
	name := "tailbox"
	c := &Command{Name: "completion", About: "prints what makes a shell complete commands and flags",
		Long:    "Bash:  source <(tailbox completion bash), in ~/.bashrc\nzsh:   tailbox completion zsh > a file _tailbox in a folder of $fpath\nfish:  tailbox completion fish > ~/.config/fish/completions/tailbox.fish",
		Example: name + " completion bash > /etc/bash_completion.d/" + name}
	for _, shell := range []struct {
		name  string
		write func(*strings.Builder, string, []complete)
	}{{"bash", bash}, {"zsh", zsh}, {"fish", fish}} {
		c.Sub = append(c.Sub, &Command{Name: shell.name, About: "prints the completion of " + shell.name, Example: name + " completion " + shell.name,
			Run: func(_ context.Context, sh *Shell, _ []string) error {
				var b strings.Builder
				top := root()
				shell.write(&b, top.Name, completes(top, ""))
				_, err := io.WriteString(sh.Out, b.String())
				return err
			}})
	}
	return c
}

// A complete is what can follow the words of a command. Its path is "" for the whole command line, and /dead/list for two words.
type complete struct {
	path  string
	words []word
	flags []option
	// files: an argument is the name of a file.
	files bool
}

// A word is the name of a command, with what it does.
type word struct{ name, about string }

// An option is a flag. value is empty if it takes none, and FILE for the name of a file; choices are all that a value can be, if that is known.
type option struct {
	name, about, value string
	choices            []string
}

// dashed is the flag as it is written.
func (o *option) dashed() string {
	if len(o.name) == 1 {
		return "-" + o.name
	}
	return "--" + o.name
}

// completes lists what can follow each command.
func completes(c *Command, path string) []complete {
	if c.Run == nil {
		own := complete{path: path}
		all := []complete{{}}
		for _, sub := range c.Sub {
			own.words = append(own.words, word{sub.Name, sub.About})
			all = append(all, completes(sub, path+"/"+sub.Name)...)
		}
		all[0] = own
		return all
	}
	return []complete{{path: path, flags: c.options(), files: strings.Contains(c.Args, "FILE")}}
}

// choiceList matches how a flag's usage lists all of its values.
var choiceList = regexp.MustCompile("^`[A-Z]+`: ([a-z0-9]+(?:, [a-z0-9]+)*(?: or [a-z0-9]+)?)$")

func (c *Command) options() (all []option) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	if c.Flags != nil {
		c.Flags(fs)
	}
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		o := option{name: f.Name, about: text, value: value}
		if m := choiceList.FindStringSubmatch(f.Usage); m != nil {
			o.choices = strings.Split(strings.ReplaceAll(m[1], " or ", ", "), ", ")
		}
		all = append(all, o)
	})
	return append(all, option{name: "help", about: "shows help"})
}

// paths lists those of all commands, as a pattern.
func paths(all []complete) string {
	var list []string
	for _, c := range all {
		if c.path != "" {
			list = append(list, c.path)
		}
	}
	return strings.Join(list, "|")
}

// candidates are the words and flags of a command.
func (c *complete) candidates() string {
	var list []string
	for _, w := range c.words {
		list = append(list, w.name)
	}
	for i := range c.flags {
		list = append(list, c.flags[i].dashed())
	}
	return strings.Join(list, " ")
}

func bash(b *strings.Builder, name string, all []complete) {
	fmt.Fprintf(b, "# bash completion of %[1]s, made by: %[1]s completion bash\n_%[1]s() {\n", name)
	fmt.Fprint(b, "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i\n    COMPREPLY=()\n"+
		"    for ((i = 1; i < COMP_CWORD; i++)); do\n        case \"$at/${COMP_WORDS[i]}\" in\n"+
		"        "+paths(all)+") at+=/${COMP_WORDS[i]} ;;\n        esac\n    done\n    case \"$at $prev\" in\n")
	for _, c := range all {
		for _, o := range c.flags {
			action := "return"
			switch {
			case o.value == "":
				continue
			case o.choices != nil:
				action = `COMPREPLY=($(compgen -W "` + strings.Join(o.choices, " ") + `" -- "$cur")); return`
			case o.value == "FILE":
				action = `COMPREPLY=($(compgen -f -- "$cur")); return`
			}
			fmt.Fprintf(b, "    \"%s %s\") %s ;;\n", c.path, o.dashed(), action)
		}
	}
	fmt.Fprint(b, "    esac\n    case \"$at\" in\n")
	for _, c := range all {
		files := ""
		if c.files {
			files = `; [[ $cur == -* ]] || COMPREPLY=($(compgen -f -- "$cur"))`
		}
		fmt.Fprintf(b, "    \"%s\") COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))%s ;;\n", c.path, c.candidates(), files)
	}
	fmt.Fprintf(b, "    esac\n}\ncomplete -F _%[1]s %[1]s\n", name)
}

// quoted is a text in single quotes, without what a shell would read in them.
func quoted(text string) string {
	return "'" + strings.NewReplacer("'", "’", `\`, "/", "\n", " ").Replace(text) + "'"
}

func zsh(b *strings.Builder, name string, all []complete) {
	fmt.Fprintf(b, "#compdef %[1]s\n# zsh completion of %[1]s, made by: %[1]s completion zsh\n_%[1]s() {\n", name)
	fmt.Fprint(b, "    local at= i\n    local -a all\n    for ((i = 2; i < CURRENT; i++)); do\n        case \"$at/$words[i]\" in\n"+
		"        "+paths(all)+") at+=/$words[i] ;;\n        esac\n    done\n    case \"$at $words[CURRENT-1]\" in\n")
	for _, c := range all {
		for _, o := range c.flags {
			action := "_message value"
			switch {
			case o.value == "":
				continue
			case o.choices != nil:
				action = "compadd -- " + strings.Join(o.choices, " ")
			case o.value == "FILE":
				action = "_files"
			}
			fmt.Fprintf(b, "    \"%s %s\") %s; return ;;\n", c.path, o.dashed(), action)
		}
	}
	fmt.Fprint(b, "    esac\n    case \"$at\" in\n")
	for _, c := range all {
		var list []string
		kind := ""
		for _, w := range c.words {
			list = append(list, quoted(w.name+":"+w.about))
		}
		for _, o := range c.flags {
			kind = "-o "
			list = append(list, quoted(o.dashed()+":"+o.about))
		}
		files := ""
		if c.files {
			files = "; _files"
		}
		fmt.Fprintf(b, "    \"%s\") all=(%s); _describe %s%s all%s ;;\n", c.path, strings.Join(list, " "), kind, name, files)
	}
	fmt.Fprintf(b, "    esac\n}\nif [ \"$funcstack[1]\" = _%[1]s ]; then _%[1]s \"$@\"; else compdef _%[1]s %[1]s; fi\n", name)
}

func fish(b *strings.Builder, name string, all []complete) {
	fmt.Fprintf(b, "# fish completion of %[1]s, made by: %[1]s completion fish\nfunction __%[1]s_at\n", name)
	fmt.Fprint(b, "    set -l at ''\n    for word in (commandline -opc)[2..]\n        switch \"$at/$word\"\n            case "+strings.ReplaceAll(paths(all), "|", " ")+
		"\n                set at \"$at/$word\"\n        end\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n")
	fmt.Fprintf(b, "complete -c %s -f\n", name)
	for _, c := range all {
		at := fmt.Sprintf("complete -c %s -n '__%s_at \"%s\"'", name, name, c.path)
		for _, w := range c.words {
			fmt.Fprintf(b, "%s -a %s -d %s\n", at, w.name, quoted(w.about))
		}
		if c.files {
			fmt.Fprintf(b, "%s -F\n", at)
		}
		for _, o := range c.flags {
			kind, value := "-l", ""
			if len(o.name) == 1 {
				kind = "-s"
			}
			switch {
			case o.choices != nil:
				value = " -x -a " + quoted(strings.Join(o.choices, " "))
			case o.value == "FILE":
				value = " -r -F"
			case o.value != "":
				value = " -x"
			}
			fmt.Fprintf(b, "%s %s %s%s -d %s\n", at, kind, o.name, value, quoted(o.about))
		}
	}
}
