package router

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Options are options of Debezium's outbox event router under their own names, such as route.topic.replacement. Those that
// begin with collection. are the MongoDB router's names of the same things; they hold for every database.
type Options map[string]string

// An option is one name that Options may hold.
type option struct {
	name string
	// set reads a value into a spec.
	set func(s *spec, value string) error
}

// A spec is what Options say once they are read.
type spec struct {
	regex, replacement       string
	regexSet, replacementSet bool
	// Those of a second rule, which is applied to the topic of the first; "" = there is none.
	thenRegex, thenReplacement string
	placements                 []placementSpec
	ignoreMissing              bool
	tombstone                  bool
	// expand: a payload that is JSON becomes a JSON value; dropNulls and dropEmpty leave parts of it out.
	expand, dropNulls, dropEmpty bool
	// contextColumn holds the trace context; "" = there is none.
	contextColumn string
	// jsonKey, jsonValue and jsonHeaders: they are written as JSON instead of as they are.
	jsonKey, jsonValue, jsonHeaders bool
	// The literals of Kafka Connect's schemas that JSON is wrapped in, if any; those of headers by column.
	keySchema, valueSchema string
	headerSchemas          map[string]string
	// columns holds the columns by their configuration keys where an option names them.
	columns map[string]string
}

func optionTable() []option {
	return []option{
		{"format.header", formatOption(func(s *spec) *bool { return &s.jsonHeaders })},
		{"format.header.schema", setHeaderSchemas},
		{"format.key", formatOption(func(s *spec) *bool { return &s.jsonKey })},
		{"format.key.schema", schemaOption(func(s *spec) *string { return &s.keySchema })},
		{"format.value", formatOption(func(s *spec) *bool { return &s.jsonValue })},
		{"format.value.schema", schemaOption(func(s *spec) *string { return &s.valueSchema })},
		{"route.by.field", columnOption("topic")},
		{"route.topic.regex", func(s *spec, v string) error { s.regex, s.regexSet = v, true; return nil }},
		{"route.topic.replacement", func(s *spec, v string) error { s.replacement, s.replacementSet = v, true; return nil }},
		{"route.topic.then.regex", func(s *spec, v string) error { s.thenRegex = v; return nil }},
		{"route.topic.then.replacement", func(s *spec, v string) error { s.thenReplacement = v; return nil }},
		{"route.tombstone.on.empty.payload", boolOption(func(s *spec) *bool { return &s.tombstone })},
		{"table.expand.json.payload", boolOption(func(s *spec) *bool { return &s.expand })},
		{"table.field.additional.missing", choiceOption(func(s *spec) *bool { return &s.ignoreMissing }, "ignore", "error")},
		{"table.field.event.id", columnOption("id")},
		{"table.field.event.key", columnOption("key")},
		{"table.field.event.payload", columnOption("payload")},
		{"table.field.event.schema.version", anyColumn},
		{"table.field.event.timestamp", columnOption("created_at")},
		{"table.field.event.type", columnOption("type")},
		{"table.fields.additional.error.on.missing", setErrorOnMissing},
		{placementOption, setPlacements},
		{"table.json.payload.empty.array.behavior", choiceOption(func(s *spec) *bool { return &s.dropEmpty }, "ignore", "optional_string")},
		{"table.json.payload.null.behavior", choiceOption(func(s *spec) *bool { return &s.dropNulls }, "ignore", "optional_bytes")},
		{"table.op.invalid.behavior", setInvalid},
		{"tracing.operation.name", func(s *spec, _ string) error { s.trace(); return nil }},
		{"tracing.span.context.field", setContextColumn},
		{"tracing.with.context.field.only", setContextOnly},
	}
}

// OptionNames lists the options, without MongoDB's other names.
func OptionNames() []string {
	var names []string
	for _, o := range optionTable() {
		names = append(names, o.name)
	}
	return names
}

// The MongoDB router's options have names of their own for what is about the table.
const (
	tablePrefix      = "table."
	collectionPrefix = "collection."
)

// canonical is the name of an option as optionTable has it.
func canonical(name string) string {
	rest, ok := strings.CutPrefix(name, collectionPrefix)
	if !ok || strings.HasPrefix(rest, "json.") { // MongoDB's router does not know these
		return name
	}
	return tablePrefix + rest
}

// OptionsOf are those of a table: what its shape brings, shared over it, and own over both.
func OptionsOf(t *outbox.Table, shared, own Options) Options {
	shape, _ := outbox.ShapeNamed(t.Shape)
	return Options(shape.Router).beneath(shared).With(own)
}

const placementOption = "table.fields.additional.placement"

// beneath returns the options overridden by others, but that placements add up: whoever places one more column for all tables does not
// know which ones a shape places. What would place two columns as one thing, as the others say, is placed once.
func (o Options) beneath(others Options) Options {
	merged := o.With(others)
	placed, _ := o.Get(placementOption)
	over, both := others.Get(placementOption)
	if placed == "" || !both {
		return merged
	}
	var above spec
	_ = setPlacements(&above, over) // What is wrong with it is told where it stands.
	var entries []string
	for entry := range strings.SplitSeq(placed, ",") {
		p, err := parsePlacement(entry)
		if err == nil && slices.ContainsFunc(above.placements, p.sameAs) {
			continue
		}
		entries = append(entries, entry)
	}
	merged[placementOption] = strings.Join(append(entries, over), ",")
	return merged
}

// Get returns an option's value, under either of its names.
func (o Options) Get(name string) (value string, set bool) {
	if value, set = o[name]; set {
		return value, true
	}
	for other, value := range o {
		if canonical(other) == name {
			return value, true
		}
	}
	return "", false
}

// Columns returns the columns that the options name, by their keys in the configuration's columns (id type topic key payload
// created_at). They are Debezium's spelling of the same thing.
func (o Options) Columns() map[string]string {
	s, _ := o.read(nil)
	return s.columns
}

// Fields returns the columns that the options need beside those that are part of every message, for outbox.Table's
// Fields. What is written as JSON is among them in any case: there it matters whether it is a number.
func (o Options) Fields(columns outbox.Columns) []string {
	s, _ := o.read(nil)
	var fields []string
	add := func(name string) {
		if name != "" && !slices.Contains(fields, name) {
			fields = append(fields, name)
		}
	}
	for _, p := range s.placements {
		if p.kind == placeEnvelope || p.kind == placeHeader && s.jsonHeaders || columnOf(&columns, p.column) == nil || s.ignoreMissing && p.column == columns.Type {
			add(p.column)
		}
	}
	if s.jsonHeaders {
		add(columns.ID)
	}
	if s.jsonKey {
		add(columns.Key)
	}
	add(s.contextColumn)
	return fields
}

// NeedsType reports whether the type makes the topic, or is placed where it must not be missing.
func (o Options) NeedsType(columns outbox.Columns) bool {
	s, _ := o.read(nil)
	return columns.Type != "" && (columns.Topic == "" || !s.ignoreMissing && slices.ContainsFunc(s.placements, func(p placementSpec) bool { return p.column == columns.Type }))
}

// Optional returns those of Fields that a table may lack, for outbox.Table's Optional.
func (o Options) Optional() []string {
	s, _ := o.read(nil)
	var optional []string
	if s.contextColumn != "" {
		optional = append(optional, s.contextColumn)
	}
	for _, p := range s.placements {
		if s.ignoreMissing {
			optional = append(optional, p.column)
		}
	}
	return optional
}

// read parses all options; what is wrong with them is told by problems below path.
func (o Options) read(path []string) (*spec, []*Problem) {
	s := &spec{regex: defaultTopicRegex, replacement: defaultTopicReplacement, columns: map[string]string{}}
	known := optionTable()
	var problems []*Problem
	for _, name := range slices.Sorted(maps.Keys(o)) {
		i := slices.IndexFunc(known, func(k option) bool { return k.name == canonical(name) })
		if i < 0 {
			problems = append(problems, &Problem{Path: at(path, name), Reason: "unknown option", Allowed: OptionNames()})
			continue
		}
		if other, both := o[known[i].name]; both && other != o[name] {
			problems = append(problems, &Problem{Path: at(path, name), Value: o[name],
				Reason: "contradicts " + known[i].name + ", which is the same option and is " + strconv.Quote(other) + ": keep one of the two"})
			continue
		}
		if err := known[i].set(s, o[name]); err != nil {
			problems = append(problems, &Problem{Path: at(path, name), Value: o[name], Reason: err.Error()})
		}
	}
	return s, append(problems, s.schemaProblems(path)...)
}
