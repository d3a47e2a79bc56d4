package router

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A connectSchema is what Kafka Connect's JSON converter puts before each value where schemas are enabled: the literal is sent
// as it stands.
type connectSchema struct {
	// open is everything before the payload; "" = there is no schema.
	open string
	// bytes: the payload is written in base64.
	bytes bool
}

// stringSchema is that of headers that are no columns.
const stringSchema = `{"type":"string","optional":false}`

func newConnectSchema(literal string) connectSchema {
	if literal == "" {
		return connectSchema{}
	}
	var s struct{ Type string }
	_ = json.Unmarshal([]byte(literal), &s) // checkSchema did the same
	return connectSchema{open: `{"schema":` + literal + `,"payload":`, bytes: s.Type == "bytes"}
}

// append appends a value with its schema, to nil in one piece of memory as a rule.
func (s connectSchema) append(b []byte, c cell) []byte {
	if b == nil {
		b = make([]byte, 0, len(s.open)+len(c.text)+8)
	}
	if s.open == "" {
		return c.appendJSON(b)
	}
	b = append(b, s.open...)
	if s.bytes && c.text != nil {
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), c.text), '"')
	} else {
		b = c.appendJSON(b)
	}
	return append(b, '}')
}

// checkSchema tells what is wrong with the literal of a schema.
func checkSchema(literal string) error {
	var s struct{ Type string }
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		return fmt.Errorf("must be a schema of Kafka Connect as JSON, such as %s: %w", stringSchema, err)
	}
	switch s.Type {
	case "string", "bytes", "boolean", "int8", "int16", "int32", "int64":
		return nil
	}
	return fmt.Errorf("has the type %q: it must be string, bytes, boolean, int8, int16, int32 or int64", s.Type)
}

func schemaOption(field func(*spec) *string) func(*spec, string) error {
	return func(s *spec, v string) error {
		if err := checkSchema(v); err != nil {
			return err
		}
		*field(s) = v
		return nil
	}
}

// setHeaderSchemas reads one JSON object: the schemas of headers by their columns.
func setHeaderSchemas(s *spec, v string) error {
	var literals map[string]json.RawMessage
	if err := json.Unmarshal([]byte(v), &literals); err != nil || len(literals) == 0 {
		return errors.New(`must be a JSON object of columns and their schemas, such as {"id":` + stringSchema + `}`)
	}
	s.headerSchemas = map[string]string{}
	for _, column := range slices.Sorted(maps.Keys(literals)) {
		if err := checkSchema(string(literals[column])); err != nil {
			return fmt.Errorf("column %s %w", column, err)
		}
		s.headerSchemas[column] = string(literals[column])
	}
	return nil
}

// schemaProblems tells which schemas contradict other options.
func (s *spec) schemaProblems(path []string) []*Problem {
	var problems []*Problem
	for _, o := range []struct {
		name    string
		set, ok bool
	}{
		{"format.key.schema", s.keySchema != "", s.jsonKey}, {"format.value.schema", s.valueSchema != "", s.jsonValue}, {"format.header.schema", s.headerSchemas != nil, s.jsonHeaders},
	} {
		if o.set && !o.ok {
			problems = append(problems, &Problem{Path: at(path, o.name), Reason: "needs " + strings.TrimSuffix(o.name, ".schema") + ": json beside it"})
		}
	}
	if s.valueSchema != "" && (s.expand || slices.ContainsFunc(s.placements, func(p placementSpec) bool { return p.kind == placeEnvelope })) {
		problems = append(problems, &Problem{Path: at(path, "format.value.schema"), Reason: "is for a payload as it stands in its column: remove it, or table.expand.json.payload and the envelope"})
	}
	return problems
}
