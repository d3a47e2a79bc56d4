// Package update makes the updates that tell documents of an application what became of its messages.
package update

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/document"
)

// An Template is an update with parameters in it.
type Template struct {
	Collection string        `bson:"collection"`
	Filter     bson.D        `bson:"filter"`
	Update     bson.RawValue `bson:"update"`
	Upsert     bool          `bson:"upsert"`

	update any
}

// Parse reads Extended JSON.
func Parse(text string) (*Template, error) {
	u := &Template{}
	if err := bson.UnmarshalExtJSON([]byte(text), false, u); err != nil {
		return nil, fmt.Errorf("must be JSON, or Extended JSON: %w", err)
	}
	var err error
	if u.Update.Type == bson.TypeArray {
		var stages bson.A
		err = u.Update.Unmarshal(&stages)
		u.update = stages
	} else {
		var operators bson.D
		err = u.Update.Unmarshal(&operators)
		u.update = operators
	}
	if err != nil {
		return nil, fmt.Errorf("must be JSON, or Extended JSON: %w", err)
	}
	return u, nil
}

// maxUpdate bounds the bytes of an update with its filter: one statement is a document, and the server takes none over 16 MiB. The
// rest of it is small.
const maxUpdate = 16<<20 - 1<<10

// Model is the update of an outcome. It is encoded here: what cannot be would fail all updates that are sent with it.
func (u *Template) Model(o *source.Outcome) (mongo.WriteModel, error) {
	filter, err := encodeFilled(u.Filter, o, false)
	if err != nil {
		return nil, err
	}
	size := len(filter)
	m := mongo.NewUpdateOneModel().SetFilter(filter).SetUpsert(u.Upsert)
	if stages, ok := u.update.(bson.A); ok {
		list := make([]bson.Raw, len(stages))
		for i, stage := range stages {
			if list[i], err = encodeFilled(stage, o, true); err != nil {
				return nil, err
			}
			size += len(list[i])
		}
		m.SetUpdate(list)
	} else {
		update, err := encodeFilled(u.update, o, false)
		if err != nil {
			return nil, err
		}
		size += len(update)
		m.SetUpdate(update)
	}
	if size > maxUpdate {
		return nil, fmt.Errorf("the update of message %s has %d bytes, and MongoDB takes %d", o.RowID, size, maxUpdate)
	}
	return m, nil
}

// encodeFilled puts values in the place of parameters, and encodes the document. expr as in fillIn.
func encodeFilled(part any, o *source.Outcome, expr bool) (bson.Raw, error) {
	filled, err := fillIn(part, o, expr)
	if err != nil {
		return nil, err
	}
	doc, err := bson.Marshal(filled)
	if err != nil {
		return nil, fmt.Errorf("encode the update of message %s: %w", o.RowID, err)
	}
	return doc, nil
}

// fillIn puts values in the place of parameters. expr: it is an expression, in which a text that begins with a dollar would name a
// field, so that values are literal there.
func fillIn(v any, o *source.Outcome, expr bool) (any, error) {
	switch v := v.(type) {
	case bson.D:
		d := make(bson.D, len(v))
		for i, e := range v {
			value, err := fillInField(e, o, expr)
			if err != nil {
				return nil, err
			}
			d[i] = bson.E{Key: e.Key, Value: value}
		}
		return d, nil
	case bson.A:
		a := make(bson.A, len(v))
		for i, item := range v {
			var err error
			if a[i], err = fillIn(item, o, expr); err != nil {
				return nil, err
			}
		}
		return a, nil
	case string:
		p, ok, err := source.ParseDocumentParam(o.Kind, v)
		if err != nil {
			return nil, err
		}
		if !ok {
			if strings.HasPrefix(v, "::") { // a text that begins with a colon
				return v[1:], nil
			}
			return v, nil
		}
		value, err := typed(p, o)
		if err == nil && expr {
			value = document.Literal(value)
		}
		return value, err
	}
	return v, nil
}

// fillInField is fillIn for a field of a document: its name may say whether it is an expression.
func fillInField(e bson.E, o *source.Outcome, expr bool) (any, error) {
	switch e.Key {
	case "$expr":
		return fillIn(e.Value, o, true)
	case "$literal", "$unset": // what is literal already, and names of fields
		return fillIn(e.Value, o, false)
	case "$set", "$addFields":
		if _, whole := e.Value.(string); !whole || !expr {
			break
		}
		// A parameter that is all fields: the stage takes no literal, but each field does.
		value, err := fillIn(e.Value, o, false)
		fields, _ := value.(bson.D)
		for i := range fields {
			fields[i].Value = document.Literal(fields[i].Value)
		}
		return value, err
	}
	return fillIn(e.Value, o, expr)
}

// typed is the value of a parameter in its type.
func typed(p source.DocumentParam, o *source.Outcome) (any, error) {
	text, null := p.Value(o)
	if null {
		return nil, nil
	}
	var v any = text
	var err error
	switch p.Type {
	case "int":
		v, err = strconv.ParseInt(text, 10, 64)
	case "double":
		v, err = strconv.ParseFloat(text, 64)
	case "bool":
		v, err = strconv.ParseBool(text)
	case "objectid":
		v, err = bson.ObjectIDFromHex(text)
	case "date":
		v, err = parseDate(text)
	case "json":
		var d struct{ V any }
		err = bson.UnmarshalExtJSON([]byte(`{"v":`+text+`}`), false, &d)
		v = d.V
	case "":
		if p.Name == "attempt" && !p.Column {
			return o.Attempt, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make :%s of message %s a %s: %w", p.Name, o.RowID, p.Type, err)
	}
	return v, nil
}

func parseDate(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("it is no time as RFC 3339 has it")
}
