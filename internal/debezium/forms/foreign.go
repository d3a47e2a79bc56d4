package forms

import (
	"bytes"
	"regexp"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// A foreignForm is a form of files that tailbox knows and does not read.
type foreignForm struct {
	// telling matches a file: its name in the first line, and its text behind that.
	telling func() *regexp.Regexp
	name    string
	// alone: such a file holds no form that is read. Others may, such as a command curl.
	alone bool
}

// Patterns of forms.
var (
	makefile      = lazyregexp.New(`(?ms)(?:\A(?:GNU)?[Mm]akefile\b|\A[^\n]*\.mk\n|^[\w.-]+:[^=\n]*\n\t@?(?:curl|docker)\b).*\$`)
	recipe        = lazyregexp.New(`(?m)\A(?:GNU)?[Mm]akefile\n(?s:.*)^\t`)
	hereDocument  = lazyregexp.New(`(?ims)<<-?[ \t]*[\\"']?\w[^\n]*\n(?:.*\n)?\s*(?:%\w+\.)?debezium[._](?:source|sink)[._][\w.]+\s*=|<<-?[ \t]*[\\"']?\w[^\n]*\n.*\bname:\s*debezium_(?:source|sink)_`)
	ksql          = lazyregexp.New(`(?im)^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:SOURCE|SINK)\s+CONNECTOR\b`)
	terraform     = lazyregexp.New(`(?m)^\s*resource\s+"[A-Za-z0-9_-]+"\s+"[^"]+"\s*\{|\A[^\n]*\.tf\n(?s:.*)^\s*(?:module\s+"[^"]+"|locals|data\s+"[^"]+"\s+"[^"]+")\s*\{`)
	powershell    = lazyregexp.New(`(?mi)^\s*\$\w+\s*=\s*@[{'"]|\bInvoke-(?:RestMethod|WebRequest)\b`)
	markup        = lazyregexp.New(`\A[^\n]*\n\s*<[^?]|\A[^\n]*\n\s*<\?xml`)
	markdown      = lazyregexp.New(`\A[^\n]*\.(?:md|mdx|markdown)\n`)
	program       = lazyregexp.New(`\A[^\n]*(?:\.(?:java|kt|kts|groovy|scala|ts|tsx|js|mjs|py|go|cs|rb|php)|Jenkinsfile)\n`)
	batch         = lazyregexp.New(`(?i)\A[^\n]*(?:\.(?:bat|cmd)\n|\n\s*@echo off\b)`)
	workflow      = lazyregexp.New(`(?m)^\s*runs-on:`)
	dockerfile    = lazyregexp.New(`(?m)^FROM\s+\S+`)
	systemd       = lazyregexp.New(`(?m)^\[Service\]`)
	ecs           = lazyregexp.New(`"?containerDefinitions"?\s*[:=]`)
	kustomization = lazyregexp.New(`(?m)^kind:\s*Kustomization\b`)
	ansible       = lazyregexp.New(`\A[^\n]*\.ya?ml\n(?s:.*)(?m)^[ \t]*- (?:name|hosts):(?s:.*)^\s+(?:(?:ansible\.\w+\.\w+|become|register|delegate_to):|uri:\n\s+\w+:)`)
	values        = lazyregexp.New(`\A(?i:[^\n]*values[^\n/]*\.ya?ml)\n|\A[^\n]*\.ya?ml\n(?s:.*)\{\{-?\s*\.(?:Release|Values)\b`)
	yamlCommand   = lazyregexp.New(`\A[^\n]*\.ya?ml\n(?s:.*)\bcurl\s`)
	jq            = lazyregexp.New(`\bjq\b[^\n]*\{\s*\w+\s*:`)
	toml          = lazyregexp.New(`\A[^\n]*\.toml\n`)
	jsonnet       = lazyregexp.New(`\A[^\n]*\.(?:j|lib)sonnet\n`)
	nix           = lazyregexp.New(`\A[^\n]*\.nix\n`)
	dockerRun     = lazyregexp.New(`(?m)\b(?:docker|podman)\s+(?:container\s+)?(?:run|create)\b`)
)

// foreignForms returns all such forms. The first one that matches names a file.
func foreignForms() []foreignForm {
	return slices.Concat([]foreignForm{{markdown, Markdown, false}}, misread(), []foreignForm{
		{ksql, "SQL of ksqlDB", true},
		{terraform, "a resource of Terraform", true},
		{toml, "TOML", true},
		{jsonnet, "Jsonnet", true},
		{nix, "Nix", true},
		{program, Program, false},
		{powershell, "a script of PowerShell", true},
		{markup, "XML or HTML", true},
		{workflow, "a workflow of GitHub Actions", false},
		{dockerfile, Dockerfile, false},
		{systemd, "a unit of systemd", false},
		{ecs, "a task definition of ECS", false},
		{kustomization, "a Kustomization", false},
		{ansible, Ansible, false},
		{yamlCommand, Command, false},
		{values, helmValues, false},
		{jq, "a script with jq", false},
		{recipe, Makefile, false},
		{dockerRun, run, false},
	})
}

// Markdown is the form of pages whose blocks of code can hold commands.
const Markdown = "Markdown without a shell command that sends a connector"

// Forms whose files hold no options of their own.
const (
	Program  = "a program"
	Makefile = "a Makefile"
	Batch    = "a batch file of Windows"
)

// Ansible is the form of a list of tasks. helmValues is that of a chart's values.
const (
	Ansible    = "a list of tasks of Ansible"
	helmValues = "a file with the values of a Helm chart"
)

// Dockerfile is the form of files that make an image.
const Dockerfile = "a Dockerfile"

// HasNoOptions reports whether the lines of a form's files are those of a program.
func HasNoOptions(form string) bool { return slices.Contains([]string{Program, Makefile, Batch}, form) }

// Command is the form of a command in a compose file, a Job of Kubernetes or a list of tasks.
const Command = "YAML with a shell command"

// run is the form of a script that starts a container.
const run = "a script with docker run"

// misread returns forms that look like a script of a shell, and are none: make, and the shell in a here-document, replace variables first, and Windows has
// other quotes and variables. A Makefile without variables is read as a script.
func misread() []foreignForm {
	return []foreignForm{{batch, Batch, false}, {makefile, Makefile, false}, {hereDocument, "a script that writes options in a here-document", false}}
}

// formOf returns the first of some forms that a file has; nil if it has none.
func formOf(forms []foreignForm, name string, text []byte) *foreignForm {
	whole := append([]byte(name+"\n"), text...)
	at := slices.IndexFunc(forms, func(f foreignForm) bool { return f.telling().Match(whole) })
	if at < 0 {
		return nil
	}
	return &forms[at]
}

// Ask is how to give a connector that stands in a form that is not read.
const Ask = "give the answer of GET /connectors/NAME/config, or write the options alone into a file of JSON or properties"

// serverVariables and serverLines are options of Debezium Server in a text, as variables and as properties. The resources are those of its operator and of Strimzi, and the
// images those of Debezium.
var (
	serverResource    = lazyregexp.New(`(?m)^\s*kind:\s*["']?DebeziumServer\b`)
	serverImage       = lazyregexp.New(`\bdebezium/server\b|:/debezium/conf(?:ig)?\b`)
	workerImage       = lazyregexp.New(`\bdebezium/connect\b`)
	connectorResource = lazyregexp.New(`(?m)^\s*kind:\s*["']?KafkaConnector\b`)
	serverVariables   = lazyregexp.New(`(?i)\bDEBEZIUM_SOURCE_CONNECTOR_CLASS\b`)
	serverLines       = lazyregexp.New(`debezium\.source\.connector\.class\b`)
)

// instead is what to give in place of a file of a form.
func instead(form string, text []byte) string {
	switch {
	case form == helmValues:
		return "give what helm template prints"
	case serverVariables().Match(text):
		return "write its variables DEBEZIUM_* into a .env file, NAME=value a line, and give that"
	case serverLines().Match(text):
		return "write its options debezium.* into a file application.properties, and give that"
	case connectorResource().Match(text):
		return "write the KafkaConnector into a file of YAML, and give that"
	case serverResource().Match(text):
		return "write the DebeziumServer into a file of YAML, and give that"
	case (form == run || form == Program && !Declares(text)) && serverImage().Match(text):
		return "give the application.properties that is mounted in it, and write its variables DEBEZIUM_* into a .env file beside that"
	case form == run && workerImage().Match(text) && !Declares(text):
		return "give the connector, and write the variables of its worker into a .env file beside that"
	case form == Command:
		return "write the command into a file .sh, with one $ for each $$ of a compose file, and give that"
	}
	return Ask
}

// Foreign names the form of a file if tailbox knows that form and does not read it. alone means that no part of such a file is read.
func Foreign(name string, text []byte) (form string, alone bool) {
	if f := formOf(foreignForms(), name, text); f != nil {
		return f.name, f.alone
	}
	return "", false
}

// WhyUnread says why a file is not read that holds a connector, with what to give instead.
func WhyUnread(name string, text []byte) string {
	if form, _ := Foreign(name, text); form != "" {
		return "it is " + form + ", which tailbox does not read: " + instead(form, text)
	}
	return "it holds a connector in a form that tailbox does not read: " + instead("", text)
}

// declared matches a text that says which connector or which router to run.
var declared = lazyregexp.New(`(?im)^\s*(?:[^#;\s][^#\n]*)?(?:connector[._]class|transforms[._]\w+[._]type)(?:\W|\b(?:to|value)\b){1,60}(?:io\.debezium\.|\w*EventRouter\b)`)

// Declares reports whether a text says which connector or which router to run.
func Declares(text []byte) bool { return declared().Match(text) }

// Misleads reports whether a file would be read as a script of a shell, and means something else.
func Misleads(name string, text []byte) bool {
	return declared().Match(text) && formOf(misread(), name, text) != nil
}

// fence begins and ends a block of code in Markdown.
var fence = lazyregexp.New("(?m)^[ \t]*(?:```+|~~~+)[^`\n]*\r?\n?")

// commands returns what a shell reads of a text: of Markdown, the blocks of code that can be commands; else all of it.
func commands(text []byte) []byte {
	at := fence().FindAllIndex(text, -1)
	if len(at) == 0 || bytes.HasPrefix(text, []byte("#!")) {
		return text
	}
	var script []byte
	for i := 0; i < len(at); i += 2 {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		line := text[at[i][0]:at[i][1]] // in a list, the block is indented as it is
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		block := bytes.ReplaceAll(bytes.TrimPrefix(text[at[i][1]:end], indent), append([]byte("\n"), indent...), []byte("\n"))
		if _, err := syntax.NewParser().Parse(bytes.NewReader(block), ""); err == nil {
			script = append(append(script, block...), '\n')
		}
	}
	return script
}
