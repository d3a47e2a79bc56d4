package router

import (
	"errors"
	"fmt"
	"strings"
)

// columnOption makes the setter of an option that names a column.
func columnOption(key string) func(*spec, string) error {
	return func(s *spec, v string) error {
		if err := anyColumn(s, v); err != nil {
			return err
		}
		s.columns[key] = v
		return nil
	}
}

// anyColumn reads the name of a column that is not needed: the version of Connect's schema goes nowhere without that
// schema.
func anyColumn(_ *spec, v string) error {
	if v == "" {
		return errors.New("needs the name of a column")
	}
	return nil
}

func boolOption(field func(*spec) *bool) func(*spec, string) error {
	return func(s *spec, v string) error {
		on, err := parseBool(v)
		*field(s) = on
		return err
	}
}

// choiceOption makes the setter of an option with two values: yes sets the field.
func choiceOption(field func(*spec) *bool, yes, no string) func(*spec, string) error {
	return func(s *spec, v string) error {
		*field(s) = v == yes
		if v != yes && v != no {
			return fmt.Errorf("must be %s or %s", no, yes)
		}
		return nil
	}
}

// formatOption makes the setter of how something is written, in the words of Debezium Server.
func formatOption(json func(*spec) *bool) func(*spec, string) error {
	return func(s *spec, v string) error {
		switch v {
		case "json", "simplestring", "binary":
			*json(s) = v == "json"
			return nil
		}
		return errors.New("must be simplestring or binary, which both pass on the bytes of the column, or json, which is JSON without a schema")
	}
}

// setErrorOnMissing reads the name that table.field.additional.missing had up to Debezium 3.5.
func setErrorOnMissing(s *spec, v string) error {
	isError, err := parseBool(v)
	s.ignoreMissing = err == nil && !isError
	return err
}

// setInvalid accepts Debezium's values: what is done is the same for all of them, but for the level of the log line.
func setInvalid(_ *spec, v string) error {
	switch v {
	case "warn", "error", "fatal":
		return nil
	}
	return errors.New("must be warn, error or fatal")
}

// trace turns the propagation of trace contexts on.
func (s *spec) trace() {
	if s.contextColumn == "" {
		s.contextColumn = defaultContextColumn
	}
}

func setContextColumn(s *spec, v string) error {
	if v == "" {
		return errors.New("needs the name of a column")
	}
	s.contextColumn = v
	return nil
}

// setContextOnly accepts both values: without a context in the row there is nothing to pass on.
func setContextOnly(s *spec, v string) error {
	_, err := parseBool(v)
	s.trace()
	return err
}

func setPlacements(s *spec, v string) error {
	for entry := range strings.SplitSeq(v, ",") {
		p, err := parsePlacement(strings.TrimSpace(entry))
		if err != nil {
			return err
		}
		for _, other := range s.placements {
			switch {
			case p.kind == placePartition && other.kind == placePartition:
				return errors.New("places more than one column as the partition")
			case p.kind == placeEnvelope && other.kind == placeEnvelope && p.alias == other.alias:
				return fmt.Errorf("places two columns as %s of the envelope: give one of them another name", p.alias)
			}
		}
		if p.kind == placeEnvelope && p.alias == envelopePayload {
			return fmt.Errorf("places column %s as %s of the envelope, which is the payload itself: give it another name", p.column, p.alias)
		}
		s.placements = append(s.placements, p)
	}
	return nil
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "false":
		return strings.EqualFold(v, "true"), nil
	}
	return false, fmt.Errorf("must be true or false")
}
