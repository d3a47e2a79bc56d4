package debezium

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// chosen is the name of an option that says which connector or which router to run, or of its variable.
var chosen = lazyregexp.New(`(?i)^(?:_[a-z0-9]+_)?(?:debezium[._])?(?:source[._])?(?:connector[._]class|transforms[._][^.\s]+[._]type)$`)

// chosenOptions counts the options that say which connector or which router to run.
func (c *conversion) chosenOptions() (n int) {
	for _, l := range c.layers {
		for _, s := range l.settings {
			if name, _ := inProfile(s.key); chosen().MatchString(name) {
				n++
			}
		}
	}
	for name := range c.variables.given {
		if optionVariable().MatchString(name) && chosen().MatchString(name) {
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
	before, problems, others, idle := c.chosenOptions(), len(c.problems), len(c.unread), len(c.out.idle)
	l, text := c.readForm(f)
	if name := l.nameFromAddress(text); name != nil {
		c.out.ignored(name, "the address has "+name.raw+", which is not read: the pipeline is named after topic.prefix")
	}
	known, _ := forms.Foreign(l.name, text)
	named := slices.ContainsFunc(c.problems[problems:], func(p *Problem) bool {
		return p.Key == "form" || known == "" && (p.Key == "JSON" || p.Key == "YAML")
	})
	if known == forms.Command && !forms.Declares(text) && bytes.Contains(text, []byte("/connectors")) {
		if files := sentFiles(commands(text)); len(files) > 0 {
			c.unread = append(c.unread, unread{l.name, giveFiles(files, text)})
			return
		}
	}
	if c.chosenOptions() == before && len(c.unread) == others && !named && forms.Declares(text) && !onlyVariables(l.name, text) {
		c.unread = append(c.unread, unread{l.name, forms.WhyUnread(l.name, text)})
		l.settings = nil // words of that form
		c.problems = append(c.problems[:problems], slices.DeleteFunc(slices.Clone(c.problems[problems:]), func(p *Problem) bool {
			return p.Reason == noOptionValue || p.Key == "JSON" || p.Key == "YAML"
		})...)
		return
	}
	if told := c.problems[problems:]; c.chosenOptions() == before && (len(told) > 1 || known != "" && len(told) > 0 || known == forms.Dockerfile) && !slices.ContainsFunc(told, func(p *Problem) bool { return p.Reason != noOptionValue }) {
		why := "it holds no options: " + formsRead // but the settings of another program, say
		if known != "" {
			why = forms.WhyUnread(l.name, text)
		}
		l.settings, c.problems, c.out.idle = nil, c.problems[:problems], c.out.idle[:idle]
		c.form(l, why)
	}
}

// tasks notes that a file holds tasks of Ansible, if it does, and what they send.
func (c *conversion) tasks(l *layer, text []byte) bool {
	form, _ := forms.Foreign(l.name, text)
	if form != forms.Ansible {
		return false
	}
	why := forms.WhyUnread(l.name, text)
	if files := sentFiles(toConnectors(text)); len(files) > 0 {
		why = giveFiles(files, text)
	}
	c.unread = append(c.unread, unread{l.name, why})
	return true
}

// commands returns the texts in YAML that call Kafka Connect, such as the command of a service. Beside them stand options of other programs.
func commands(text []byte) []byte {
	documents, err := forms.ReadYAML(text)
	if err != nil {
		return text
	}
	var found []string
	for _, document := range documents {
		document.Walk(func(t *forms.Tree) {
			if strings.Contains(t.Text, "/connectors") {
				found = append(found, t.Text)
			}
		})
	}
	return []byte(strings.Join(found, "\n"))
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

// sendsPrinted is why a script is refused that sends no text of its own, and no file.
const sendsPrinted = "it sends what another command prints: write that into a file, and give the file"

// madeByJQ matches a command jq that reads no JSON and makes some.
var madeByJQ = lazyregexp.New(`\bjq\s+(?:-\w+\s+)*(?:-\w*n\w*|--null-input)\s`)

// Patterns of commands that send a file: its name, what changes one, and what an answer is written to.
var (
	sent      = lazyregexp.New(`(?:\s-d|--data(?:-\w+)?|--json)[ \t=]*["']?@["']?((?:\$\(dirname [^()\s]*\))?[^\s"'\x60()-][^\s"'\x60();]+)`)
	fed       = lazyregexp.New(`(?:<|\bcat\s|\bjq\s(?:[^|\n]*\s)?|\s-T|--upload-file|--post-file|--config(?:-file)?|--cli-input-json|\bhttps?\s[^|\n]*\s@|\b(?:kubectl|oc)\s[^|\n]*\s(?:-f|--filename))[\s=]*["']?(?:file://)?([\w./${}-]+\.(?:json|ya?ml)(?:\.\w+)*)`)
	maker     = lazyregexp.New(`\b(sed|awk|perl|jq|yq|envsubst)\s((?:\\\r?\n|"[^"]*"|'[^']*'|[^|\n])*)`)
	answered  = lazyregexp.New(`(?:\s-\w*o|--output)[\s=]*["']?([\w./${}-]+)`)
	httpie    = lazyregexp.New(`\bhttps?\s+(?:PUT|POST)\s`)
	loops     = lazyregexp.New(`(?i)\bfor\s+(?:/\w+\s+)*%*(\w+)\s+in\b`)
	wholeLine = lazyregexp.New(`(?:\\\r?\n|[^\n])+`)
)

// sentFiles are the files that a script sends, as they are named there. A file that curl writes an answer to is none, though the script may print it.
func sentFiles(text []byte) (files []string) {
	answers := answered().FindAllSubmatch(text, -1)
	for i, names := range []*regexp.Regexp{sent(), fed()} {
		for _, found := range names.FindAllSubmatch(text, -1) {
			if !slices.ContainsFunc(answers, func(a [][]byte) bool { return bytes.Equal(a[1], found[1]) }) && !slices.Contains(files, string(found[1])) {
				files = append(files, string(found[1]))
			}
		}
		if len(files) > 0 {
			return files[:max(1, len(files)*(1-i))] // others than the first that are fed to a command may be for another one
		}
	}
	return nil
}

// sentAlone are the files that a script or a page sends to Kafka Connect, if it sends nothing else and says nothing of what they hold. A connector that stands
// there as well is then another one, or an example.
func sentAlone(text []byte) (files []string) {
	lines := toConnectors(text)
	for _, line := range wholeLine().FindAll(lines, -1) {
		found := slices.Concat(sent().FindAllSubmatch(line, -1), fed().FindAllSubmatch(line, -1))
		if len(found) == 0 && sending().Match(line) {
			return nil
		}
		for _, m := range found {
			file := string(m[1])
			if strings.Contains(file, "$") || bytes.Count(text, []byte(path.Base(file))) > bytes.Count(lines, []byte(path.Base(file))) {
				return nil
			}
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// sending matches a command that sends something, not one that asks.
var sending = lazyregexp.New(`\s-d|--data|--json|--post|<<|:=|\b(?:POST|PUT)\b`)

// giveFiles is what to give in place of what sends files. A script may change a file before: jq does if it sets something.
func giveFiles(files []string, script []byte) string {
	for _, m := range maker().FindAllSubmatch(script, -1) {
		_, into, _ := bytes.Cut(m[2], []byte(">"))
		switch file := files[0]; {
		case bytes.Contains(into, []byte(file)):
			return "it sends what " + string(m[1]) + " writes into " + file + ": give the file that this makes"
		case bytes.Contains(m[2], []byte(file)) && (!bytes.HasSuffix(m[1], []byte("q")) || bytes.Contains(m[2], []byte("="))):
			return "it sends what " + string(m[1]) + " makes of " + file + ": write that into a file, and give the file"
		}
	}
	var named []string
	for _, file := range files {
		named = append(named, forms.Followed(file, script))
	}
	if all := strings.Join(named, ", "); len(files) > 1 || strings.Contains(all, "*") || slices.ContainsFunc(loops().FindAllSubmatch(script, -1), func(loop [][]byte) bool {
		return string(loop[1]) == strings.Trim(all, "${}%")
	}) {
		return "it sends " + all + ": give the one of them that has an outbox event router"
	}
	return "it sends " + named[0] + ": give that file"
}

// callsHTTP reports whether a text has a command that can send a connector.
func callsHTTP(text []byte) bool { return curl().Match(text) || httpie().Match(text) }

// toConnectors returns the lines of a page that call Kafka Connect, each with those that it goes on in.
func toConnectors(text []byte) []byte {
	lines := slices.DeleteFunc(wholeLine().FindAll(text, -1), func(line []byte) bool {
		return !callsHTTP(line) || !bytes.Contains(line, []byte("/connectors"))
	})
	return bytes.Join(lines, []byte("\n"))
}
