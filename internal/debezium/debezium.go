// Package debezium reads configurations of Debezium Server and of Debezium's connectors in Kafka Connect, and writes the
// tailbox.yaml that does the same with the outbox. It is pure: files are read and written by the caller.
package debezium

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A File is one file of a configuration: of Debezium Server, of a connector, or of Kafka Connect's worker, in one of many forms.
type File struct {
	Name string
	Data []byte
}

// A Problem is one thing that cannot be taken over. It belongs to a line of a file, to a file, or to none where something
// is missing.
type Problem struct {
	// of is the setting, nil if there is none.
	of   *setting
	file string
	line int
	// Key is Debezium's, Value is "" for secrets.
	Key, Value string
	// Reason says what is wrong, with the fix.
	Reason string
}

func (p *Problem) Error() string {
	var b strings.Builder
	switch {
	case p.line > 0:
		fmt.Fprintf(&b, "%s:%d: ", p.file, p.line)
	case p.file != "":
		b.WriteString(p.file + ": ")
	}
	b.WriteString(p.Key)
	if p.Value != "" {
		fmt.Fprintf(&b, " %q", p.Value)
	}
	return b.String() + ": " + p.Reason
}

// Problems is the error of Import: all that cannot be taken over.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Import returns the tailbox.yaml that does with the outbox what Debezium does with these files, each key commented with where
// it came from, and at its end what was left out because it has no effect. An option that would change the messages and
// cannot be kept is an error, as is one of the connector that is not known. env looks up the environment: Debezium Server takes an option from a
// variable such as DEBEZIUM_SINK_TYPE before it takes it from its file. names are the names of all variables. describe is asked for the tables'
// columns if how they are sent depends on their types, once nothing else is wrong, and checks what is wrong with the result. The error is of type Problems.
func Import(files []File, env func(string) (string, bool), names []string, describe Describe, checks ...Check) ([]byte, error) {
	c := converted(files, env, names, describe, checks)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return c.out.bytes(), nil
}

func converted(files []File, env func(string) (string, bool), names []string, describe Describe, checks []Check) *conversion {
	c := &conversion{variables: variables{environment: env, names: names}, columns: columnSchemas{blind: true}}
	c.run(files)
	if len(c.problems) == 0 && c.columns.asked {
		c = &conversion{variables: variables{environment: env, names: names}, columns: columnSchemas{describe: describe}}
		c.run(files)
	}
	if len(c.problems) == 0 {
		c.check(checks)
	}
	slices.SortFunc(c.problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	return c
}

// A Check returns what tailbox refuses in a result, by line.
type Check func(yaml []byte) []Fault

// A Fault is a key of a result that tailbox refuses, with the reason.
type Fault struct {
	Line        int
	Key, Reason string
}

// check refuses the options that faults of the result come from. A line that holds a variable may become another one.
func (c *conversion) check(checks []Check) {
	for _, check := range checks {
		for _, f := range check(c.out.bytes()) {
			i := f.Line - 1 - len(c.out.head)
			if i >= 0 && i < len(c.out.body) && strings.Contains(c.out.body[i], "${") {
				continue
			}
			reason := "becomes " + f.Key + ", which tailbox refuses: " + f.Reason
			from := slices.DeleteFunc(slices.Clone(c.out.origins[i]), func(s *setting) bool { return s == nil })
			if len(from) > 1 {
				reason = "with " + keysOf(from[1:]) + " " + reason
			}
			if len(from) > 0 {
				c.problem(from[0], "%s", reason)
			} else {
				c.problems = append(c.problems, &Problem{Key: "tailbox.yaml", Reason: reason})
			}
		}
	}
}

// run reads the files, and writes what they say.
func (c *conversion) run(files []File) {
	c.settings = map[string]*setting{}
	defer c.listUses()
	for _, f := range files { // what a compose file or a script takes from it may stand in front
		c.variables.plainly(readVariables(filepath.Base(f.Name), withoutBOM(f.Data)))
	}
	for _, f := range files {
		c.read(f)
	}
	c.systemProperties()
	c.unfound()
	c.ungiven(files)
	if len(c.problems) > 0 {
		return
	}
	if c.merge(); len(c.problems) > 0 {
		return
	}
	if c.server {
		c.fromEnvironment()
	}
	c.resolveAll()
	c.convert()
}

// Describe returns the schemas that Kafka's JSON converter writes for the columns of a table, by name. Left out are columns that Debezium sends in
// another form than tailbox, or in a form that its modes of times and decimals change; the mode structured is not counted here. A schema is "" if the column's default is in it and is not known.
// kind is source.kind, and address source.url as a value of YAML. It is not asked about MongoDB.
type Describe func(kind, address, table string) (map[string]string, error)

// A conversion is an Import on its way.
type conversion struct {
	// server: this is Debezium Server's configuration, not Kafka Connect's.
	server   bool
	layers   []*layer
	names    []string
	settings map[string]*setting
	problems Problems
	out      document

	variables variables
	// inForce is the profile of Quarkus that Debezium Server runs in.
	inForce string
	// worked are the variables of a worker that are read, nil if there is none. defaultsIn names what it runs in if that has converters of its own.
	worked     []string
	defaultsIn string
	// tracer is a variable with which Debezium has OpenTelemetry; nil if there is none.
	tracer  *setting
	columns columnSchemas
	// What several parts need: the kind of database, the outbox tables, the connection, and the router's options.
	kind string
	// mongoRouter: the router is MongoDB's.
	mongoRouter bool
	tables      []string
	address     string
	options     map[string]string
	// placements is the router's option that places columns.
	placements *setting
	// then are the options of a RegexRouter behind the router, by tailbox's names.
	then map[string]*setting
	// toSet is what variables of the result have to be set to, by their names.
	toSet map[string]string
	// referred are the variables of files that options refer to.
	referred []*setting
	// wanted is what files name that has to be given beside them, and resources are those of Kubernetes that are given.
	wanted    []wanted
	resources []string
	// offsets are where connectors stopped, and offsetFiles the files that hold that.
	offsets     []offset
	offsetFiles []string
	unread      []unread
}

func (c *conversion) convert() {
	c.out.title("Made by `tailbox import debezium` from " + strings.Join(c.names, ", ") + ".")
	known := c.source()
	if c.overlaps() {
		c.out.title("While Debezium runs: tailbox init. Then commit a message, and stop Debezium for good once it has sent that one. Then: tailbox check && tailbox run.")
		c.out.title("Or stop Debezium first, and give this import its offsets too: then tailbox goes on from there.")
	} else {
		c.out.title("Stop Debezium for good, then: tailbox init && tailbox check && tailbox run.")
	}
	c.router()
	c.sink()
	c.admin()
	if known {
		c.rest()
	}
	for _, name := range slices.Sorted(maps.Keys(c.toSet)) {
		if c.out.names("${" + name + "}") {
			c.out.title("Set the environment variable " + name + " to " + c.toSet[name] + ".")
		}
	}
}

// problem notes that a setting cannot be taken over. If a reference in it cannot be resolved that is told alone, because all
// else is said of a value that it has not.
func (c *conversion) problem(s *setting, format string, args ...any) {
	if s.fault != "" && s.told {
		return
	}
	p := &Problem{of: s, file: s.file, line: s.line, Key: s.key, Value: s.value, Reason: fmt.Sprintf(format, args...)}
	if strings.Contains(s.raw, " #") && s.line > 0 {
		p.Reason += "; a # behind a value belongs to the value: a comment needs a line of its own"
	}
	if s.secret() || strings.Contains(s.value, "@") && strings.Contains(s.value, "://") { // a URL may hold a password
		p.Value = ""
	}
	c.problems = append(c.problems, p)
}

// missing notes that a setting is needed.
func (c *conversion) missing(key, format string, args ...any) {
	c.problems = append(c.problems, &Problem{Key: c.prefixed(key), Reason: fmt.Sprintf(format, args...)})
}

// prefixed is the key as these files have it.
func (c *conversion) prefixed(key string) string {
	if c.server {
		return "debezium." + key
	}
	return strings.TrimPrefix(key, "source.")
}

// take returns a setting by its key without Debezium Server's prefix, and counts it as understood; nil if it is absent. What is
// wrong with references in it is told.
func (c *conversion) take(key string) *setting {
	s := c.settings[key]
	if s != nil {
		s.used = true
		c.tell(s)
	}
	return s
}

// tell tells what is wrong with references in a setting that counts, once.
func (c *conversion) tell(s *setting) {
	if s.fault != "" {
		c.problem(s, "%s", s.fault)
		s.told = true
	}
}

// ignore lists settings that have no effect, where they are there. References in them do not matter.
func (c *conversion) ignore(why string, keys ...string) {
	for _, key := range keys {
		if s := c.settings[key]; s != nil && !s.used {
			s.used = true
			c.out.ignored(s, why)
		}
	}
}

// text takes a setting, or what stands for its default.
func (c *conversion) text(key, byDefault string) *setting {
	if s := c.take(key); s != nil {
		return s
	}
	return c.byDefault(key, byDefault)
}

// byDefault stands for an option that nobody sets.
func (c *conversion) byDefault(key, value string) *setting {
	return &setting{key: "Debezium's default of " + c.prefixed(key), value: value}
}

// keys lists the settings that are not understood yet and whose key begins with prefix, sorted.
func (c *conversion) keys(prefix string) []string {
	var keys []string
	for key, s := range c.settings {
		if !s.used && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
