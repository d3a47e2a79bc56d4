package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// DocumentTypes are what a parameter of a document can be made into, by a second colon: ":key:int". Without one it is text,
// and attempt a number.
func DocumentTypes() []string {
	return []string{"string", "int", "double", "bool", "date", "objectid", "json"}
}

// A DocumentParam is a string of a document that stands for a value.
type DocumentParam struct {
	Param
	// Type is one of DocumentTypes, or "".
	Type string
}

// ParseDocumentParam reads a string of a document: ":name", ":header.NAME", ":\"column\"", each with ":type" behind it where
// it is no text. ok is false for any other string; one that begins with "::" is a text that begins with ":".
func ParseDocumentParam(kind, text string) (p DocumentParam, ok bool, err error) {
	if !strings.HasPrefix(text, ":") || strings.HasPrefix(text, "::") {
		return p, false, nil
	}
	name, quoted, end := paramName(text, 1)
	if end == 1 {
		return p, false, nil
	}
	if rest := text[end:]; rest != "" {
		p.Type = strings.TrimPrefix(rest, ":")
		if !strings.HasPrefix(rest, ":") || !slices.Contains(DocumentTypes(), p.Type) {
			return p, false, fmt.Errorf("%q is no parameter: write :name or :name:TYPE, with TYPE one of %s, and a text that begins with a colon with two",
				text, strings.Join(DocumentTypes(), ", "))
		}
	}
	p.Param, err = param(kind, name, quoted)
	return p, err == nil, err
}

// ParseFeedbackDocument reads an update for MongoDB, {"collection", "filter", "update", "upsert"}, as JSON, of which any
// string may be a parameter. The Feedback has its parameters, and one text: the document. The error says what is wrong, to
// stand behind the name of its key.
func ParseFeedbackDocument(kind, document string) (*Feedback, error) {
	var parts struct {
		Collection string          `json:"collection"`
		Filter     json.RawMessage `json:"filter"`
		Update     json.RawMessage `json:"update"`
		Upsert     bool            `json:"upsert"`
	}
	d := json.NewDecoder(strings.NewReader(document))
	d.DisallowUnknownFields()
	if err := d.Decode(&parts); err != nil {
		return nil, fmt.Errorf("must be {collection, filter, update}, and upsert: true where it may insert: %w", err)
	}
	switch {
	case parts.Collection == "":
		return nil, errors.New("needs a collection: the name of the one that is updated")
	case !bytes.HasPrefix(parts.Filter, []byte("{")) || bytes.Equal(bytes.TrimSpace(parts.Filter), []byte("{}")):
		return nil, errors.New("needs a filter that finds the document to update")
	case !bytes.HasPrefix(parts.Update, []byte("{")) && !bytes.HasPrefix(parts.Update, []byte("[")):
		return nil, errors.New("needs an update: an object with operators such as $set, or a list of stages")
	}
	if err := checkUpdate(parts.Update); err != nil {
		return nil, err
	}
	f := &Feedback{Kind: kind, Texts: []string{document}}
	for _, part := range []json.RawMessage{parts.Filter, parts.Update} {
		tokens := json.NewDecoder(bytes.NewReader(part))
		for {
			t, err := tokens.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			text, is := t.(string) // names as well: one that begins with a colon is no field of anybody's
			if !is {
				continue
			}
			p, ok, err := ParseDocumentParam(kind, text)
			if err != nil {
				return nil, err
			}
			if ok {
				f.Params = append(f.Params, p.Param)
			}
		}
	}
	return f, nil
}

// checkUpdate refuses what no server, or driver, takes as an update: an object whose keys are not operators, which would
// replace the document, and stages that are none.
func checkUpdate(update json.RawMessage) error {
	if update[0] == '{' {
		keys, err := keysOf(update)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return errEmptyUpdate
		}
		return checkOperators(keys)
	}
	var stages []json.RawMessage
	if err := json.Unmarshal(update, &stages); err != nil {
		return err
	}
	if len(stages) == 0 {
		return errEmptyUpdate
	}
	for i, stage := range stages {
		keys, err := keysOf(stage)
		if err != nil {
			return err
		}
		if len(keys) != 1 {
			return fmt.Errorf("has an update whose stage %d is no object with one operator: write each stage as {$set: {FIELD: VALUE}}", i+1)
		}
		if err := checkOperators(keys); err != nil {
			return err
		}
	}
	return nil
}

var errEmptyUpdate = errors.New("has an empty update: write an object with operators such as $set, or a list of stages")

func checkOperators(keys []string) error {
	for _, key := range keys {
		if !strings.HasPrefix(key, "$") {
			return fmt.Errorf("has an update whose key %q is no operator: write {$set: {%s: VALUE}}", key, key)
		}
	}
	return nil
}

// keysOf are the keys of an object, in order; none if it is something else.
func keysOf(object json.RawMessage) (keys []string, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		keys = append(keys, key)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
