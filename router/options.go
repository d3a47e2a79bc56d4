package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Options are options of Debezium's outbox event router under their own names, such as route.topic.replacement.
type Options map[string]string

// An option is one name that Options may hold.
type option struct {
	name string
	// set reads a value into a spec. Nil: Debezium knows the option, this version does not.
	set func(s *spec, value string) error
}

// A spec is what Options say once they are read.
type spec struct {
	regex, replacement       string
	regexSet, replacementSet bool
	placements               []placementSpec
	ignoreMissing            bool
	tombstone                bool
	// columns holds the columns by their configuration keys where an option names them.
	columns map[string]string
}

func optionTable() []option {
	return []option{
		{"route.by.field", columnOption("topic")},
		{"route.topic.regex", func(s *spec, v string) error { s.regex, s.regexSet = v, true; return nil }},
		{"route.topic.replacement", func(s *spec, v string) error { s.replacement, s.replacementSet = v, true; return nil }},
		{"route.tombstone.on.empty.payload", func(s *spec, v string) (err error) {
			s.tombstone, err = parseBool(v)
			return err
		}},
		{"table.expand.json.payload", setExpand},
		{"table.field.additional.missing", setMissing},
		{"table.field.event.id", columnOption("id")},
		{"table.field.event.key", columnOption("key")},
		{"table.field.event.payload", columnOption("payload")},
		{"table.field.event.schema.version", nil},
		{"table.field.event.timestamp", columnOption("created_at")},
		{"table.field.event.type", columnOption("type")},
		{"table.fields.additional.placement", setPlacements},
		{"table.json.payload.empty.array.behavior", nil},
		{"table.json.payload.null.behavior", nil},
		{"table.op.invalid.behavior", setInvalid},
		{"tracing.operation.name", nil},
		{"tracing.span.context.field", nil},
		{"tracing.with.context.field.only", nil},
	}
}

// OptionNames lists the options that this version understands.
func OptionNames() []string {
	var names []string
	for _, o := range optionTable() {
		if o.set != nil {
			names = append(names, o.name)
		}
	}
	return names
}

// Columns returns the columns that the options name, by their keys in the configuration's columns (id type topic key payload
// created_at). They are Debezium's spelling of the same thing.
func (o Options) Columns() map[string]string {
	s, _ := o.read(nil)
	return s.columns
}

// Fields returns the columns that placements need beside those that are part of every message, for outbox.Table's
// Fields.
func (o Options) Fields(columns outbox.Columns) []string {
	s, _ := o.read(nil)
	var fields []string
	for _, p := range s.placements {
		if columnOf(&columns, p.column) == nil && !slices.Contains(fields, p.column) {
			fields = append(fields, p.column)
		}
	}
	return fields
}

// read parses all options; what is wrong with them is told by problems below path.
func (o Options) read(path []string) (*spec, []*Problem) {
	s := &spec{regex: defaultTopicRegex, replacement: defaultTopicReplacement, columns: map[string]string{}}
	known := optionTable()
	var problems []*Problem
	for _, name := range slices.Sorted(maps.Keys(o)) {
		i := slices.IndexFunc(known, func(k option) bool { return k.name == name })
		if i < 0 {
			problems = append(problems, &Problem{Path: at(path, name), Reason: "unknown option", Allowed: OptionNames()})
			continue
		}
		if known[i].set == nil {
			problems = append(problems, &Problem{Path: at(path, name), Value: o[name],
				Reason: "this option of Debezium's is not built into this version: remove it"})
			continue
		}
		if err := known[i].set(s, o[name]); err != nil {
			problems = append(problems, &Problem{Path: at(path, name), Value: o[name], Reason: err.Error()})
		}
	}
	return s, problems
}

// columnOption makes the setter of an option that names a column.
func columnOption(key string) func(*spec, string) error {
	return func(s *spec, v string) error {
		if v == "" {
			return errors.New("needs the name of a column")
		}
		s.columns[key] = v
		return nil
	}
}

func setExpand(_ *spec, v string) error {
	expand, err := parseBool(v)
	if err == nil && expand {
		err = errors.New("true is not built into this version: payloads are passed on byte for byte, so set it to false")
	}
	return err
}

func setMissing(s *spec, v string) error {
	switch v {
	case "error", "ignore":
		s.ignoreMissing = v == "ignore"
		return nil
	}
	return errors.New("must be error or ignore")
}

// setInvalid takes the one behaviour that can be kept: updates and deletes of outbox rows are not read, and counted.
func setInvalid(_ *spec, v string) error {
	switch v {
	case "warn":
		return nil
	case "error", "fatal":
		return errors.New("updates of outbox rows are counted and left out, as with warn: set it to warn or remove it")
	}
	return errors.New("must be warn")
}

func setPlacements(s *spec, v string) error {
	for entry := range strings.SplitSeq(v, ",") {
		p, err := parsePlacement(strings.TrimSpace(entry))
		if err != nil {
			return err
		}
		s.placements = append(s.placements, p)
	}
	partitions := 0
	for _, p := range s.placements {
		if p.partition {
			partitions++
		}
	}
	if partitions > 1 {
		return errors.New("places more than one column as the partition")
	}
	return nil
}

func parseBool(v string) (bool, error) {
	switch v {
	case "true", "false":
		return v == "true", nil
	}
	return false, fmt.Errorf("must be true or false")
}
