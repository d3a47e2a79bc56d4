package compat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

// A difference is one that is meant. It has to occur, or the list says too much.
type difference struct {
	reason string
	// is reports whether it explains why the two answers are not the same.
	is func(o router.Options, r row, theirs, ours answer) bool
}

func differences() []difference {
	expands := func(o router.Options, r row) bool {
		return o["table.expand.json.payload"] == "true" && r["payload"] != nil
	}
	payload := func(r row) string { s, _ := r["payload"].(string); return s }
	return []difference{
		{"an empty text in the topic's column cannot be told from NULL, so such a message is dead; Debezium's topic is what the replacement makes of nothing", func(o router.Options, r row, theirs, ours answer) bool {
			return theirs.Error == "" && strings.Contains(ours.Error, "is empty in the row") && r[columnOf(o, "route.by.field", "aggregatetype")] == ""
		}},
		{"a row without an id is dead before it comes to the router; Debezium sends a header without value", func(o router.Options, r row, _, ours answer) bool {
			id := r[columnOf(o, "table.field.event.id", "id")]
			return ours.Error == faultID && (id == nil || id == "")
		}},
		{"a partition below 0 is refused by the router; Debezium leaves that to Kafka's client, which stops the connector", func(_ router.Options, r row, theirs, ours answer) bool {
			return theirs.Partition != nil && *theirs.Partition < 0 && strings.Contains(ours.Error, "is not a partition number")
		}},
		{"an empty text in the type's column cannot be told from NULL, so where it is placed as a header it has no value, and as the partition it leaves the choice to the sink", func(o router.Options, r row, _, ours answer) bool {
			return r["type"] == "" && ours.Error == "" && strings.Contains(o["table.fields.additional.placement"], "type:") && !strings.Contains(o["table.fields.additional.placement"], "type:envelope")
		}},
		{"a column for the partition need not be of type INT32: what counts is that it holds a number, or NULL", func(_ router.Options, _ row, theirs, ours answer) bool {
			return strings.Contains(theirs.Error, "is not of type INT32") && ours.Error == ""
		}},
		{"a column to route by need not be a text: its text counts, whatever its type", func(_ router.Options, _ row, theirs, ours answer) bool {
			return strings.Contains(theirs.Error, "is not of type STRING") && ours.Error == ""
		}},
		{"a payload that is a number or a boolean is a text where it becomes JSON, and has no quotes at Debezium", func(o router.Options, r row, theirs, ours answer) bool {
			payload := r[columnOf(o, "table.field.event.payload", "payload")]
			return typeOf(payload) == outbox.FieldBare && theirs.sameBut(ours) && string(value(o, ours)) == `"`+string(value(o, theirs))+`"`
		}},
		{"a column that table.field.event.type names has to be there; Debezium does not look at it", func(o router.Options, _ row, _, ours answer) bool {
			return o["table.field.event.type"] == "none" && strings.Contains(ours.Error, "no column none")
		}},
		{"what Debezium cannot expand stays text: arrays at the top, mixed arrays, arrays of nulls or of empty arrays. Here they are JSON", func(o router.Options, r row, theirs, ours answer) bool {
			return expands(o, r) && json.Valid([]byte(payload(r))) && theirs.Error == "" && isText(o, theirs, payload(r)) && ours.Error == ""
		}},
		{"what stops Debezium's connector does not stop the relay: expanded arrays at the top, numbers beyond 64 bits", func(o router.Options, r row, theirs, ours answer) bool {
			return expands(o, r) && theirs.Error != "" && ours.Error == ""
		}},
		{"JSON with something behind it is text; Debezium cuts it off", func(o router.Options, r row, theirs, ours answer) bool {
			return expands(o, r) && !json.Valid([]byte(payload(r))) && ours.Error == "" && strings.HasSuffix(payload(r), "x")
		}},
		{"nulls and empty arrays stay unless they are to be dropped, digits and escapes stay as written, repeated members stay, and elements of an array get no members of their neighbours: the value " +
			"is the same as what the application wrote", func(o router.Options, r row, theirs, ours answer) bool {
			return expands(o, r) && theirs.Error == "" && ours.Error == "" && theirs.sameBut(ours) && faithful(o, payload(r), ours)
		}},
	}
}

// columnOf is the column that an option names.
func columnOf(o router.Options, option, byDefault string) string {
	if name := o[option]; name != "" {
		return name
	}
	return byDefault
}

// value is the payload's part of an answer, out of its envelope.
func value(o router.Options, a answer) json.RawMessage {
	if !strings.Contains(o["table.fields.additional.placement"], ":envelope") {
		return a.Value
	}
	var envelope struct{ Payload json.RawMessage }
	if json.Unmarshal(a.Value, &envelope) != nil {
		return nil
	}
	return envelope.Payload
}

// isText reports whether the payload went as text.
func isText(o router.Options, a answer, payload string) bool {
	var s string
	v := value(o, a)
	return string(v) == payload || json.Unmarshal(v, &s) == nil && s == payload
}

// faithful reports whether the value is the payload but for what is to be dropped.
func faithful(o router.Options, payload string, a answer) bool {
	want, ok := parse([]byte(payload))
	got, also := parse(value(o, a))
	return ok && also && reflect.DeepEqual(dropped(o, want), got)
}

func parse(text []byte) (v any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return v, decoder.Decode(&v) == nil
}

// dropped is a value without the members that the options drop.
func dropped(o router.Options, v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = dropped(o, v[i])
		}
	case map[string]any:
		for name, member := range v {
			list, isList := member.([]any)
			switch {
			case member == nil && o["table.json.payload.null.behavior"] == "ignore", isList && len(list) == 0 && o["table.json.payload.empty.array.behavior"] == "ignore":
				delete(v, name)
			default:
				v[name] = dropped(o, member)
			}
		}
	}
	return v
}
