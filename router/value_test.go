package router_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// text makes one line of all that the router makes of a message, so that cases stay short.
func text(d *sink.Delivery) string {
	var b strings.Builder
	show := func(v []byte) string {
		if v == nil {
			return "nil"
		}
		return "<" + string(v) + ">"
	}
	b.WriteString(show(d.Key) + " " + show(d.Value))
	if d.ID != nil {
		b.WriteString(" id=" + string(d.ID))
	}
	for _, h := range d.Headers {
		b.WriteString(" " + h.Name + "=" + show(h.Value))
	}
	return b.String()
}

func TestValues(t *testing.T) {
	t.Parallel()
	const placement = "table.fields.additional.placement"
	for name, c := range map[string]struct {
		options router.Options
		payload string
		edit    func(*outbox.Message)
		want    string
	}{
		"envelope":                    {router.Options{placement: "type:envelope:eventType"}, `{"a": "x"}`, nil, `<I-42> <{"payload":"{\"a\": \"x\"}","eventType":"InvoiceIssued"}>`},
		"envelope, header, partition": {router.Options{placement: "type:header:t,shard:partition,word:envelope"}, `x`, nil, `<I-42> <{"payload":"x","word":"seven"}> t=<InvoiceIssued>`},
		"envelope of numbers and booleans": {router.Options{placement: "shard:envelope,yes:envelope:ok,nothing:envelope"}, "1", nil,
			`<I-42> <{"payload":"1","shard":7,"ok":true,"nothing":null}>`},
		"envelope of a null payload":    {router.Options{placement: "word:envelope"}, "", func(m *outbox.Message) { m.Payload = nil }, `<I-42> <{"payload":null,"word":"seven"}>`},
		"envelope of an empty payload":  {router.Options{placement: "word:envelope"}, "", nil, `<I-42> <{"payload":"","word":"seven"}>`},
		"envelope of bytes":             {router.Options{placement: "word:envelope"}, "\xff\x00", nil, `<I-42> <{"payload":"/wA=","word":"seven"}>`},
		"envelope without a column":     {router.Options{placement: "none:envelope,word:envelope", "table.field.additional.missing": "ignore"}, "x", nil, `<I-42> <{"payload":"x","word":"seven"}>`},
		"envelope of what is expanded":  {router.Options{placement: "word:envelope", "table.expand.json.payload": "true"}, `{"a" : [ ] }`, nil, `<I-42> <{"payload":{"a":[]},"word":"seven"}>`},
		"tombstone wins over envelope":  {router.Options{placement: "word:envelope", "route.tombstone.on.empty.payload": "true"}, " \t\x00", nil, `<I-42> nil`},
		"tombstone keeps what is there": {router.Options{"route.tombstone.on.empty.payload": "true"}, "\u00a0", nil, "<I-42> <\u00a0>"},
		"control characters":            {router.Options{placement: "word:envelope"}, "\b\f\n\r\t\x01\x1f\u2028/é😀x", nil, `<I-42> <{"payload":"\b\f\n\r\t\u0001\u001F` + "\u2028/é" + `\uD83D\uDE00x","word":"seven"}>`},

		"expand":                       {router.Options{"table.expand.json.payload": "true"}, "{ \"b\": [1, 1.50 , null,[], { } ],\n \"a\\\" \":null, \"b\":true}", nil, `<I-42> <{"b":[1,1.50,null,[],{}],"a\" ":null,"b":true}>`},
		"expand an array":              {router.Options{"table.expand.json.payload": "true"}, "[ 1, \"x\" ]", nil, `<I-42> <[1,"x"]>`},
		"expand nothing but JSON":      {router.Options{"table.expand.json.payload": "true"}, `{"a": 1} x`, nil, `<I-42> <{"a": 1} x>`},
		"expand no scalars":            {router.Options{"table.expand.json.payload": "true"}, ` 12`, nil, `<I-42> < 12>`},
		"expand nothing after a space": {router.Options{"table.expand.json.payload": "true"}, ` {}`, nil, `<I-42> < {}>`},
		"expand null":                  {router.Options{"table.expand.json.payload": "true"}, "", func(m *outbox.Message) { m.Payload = nil }, `<I-42> nil`},
		"drop nulls": {router.Options{"table.expand.json.payload": "true", "table.json.payload.null.behavior": "ignore"},
			`{"a":null,"b":[null,{"c":null,"d":[]}],"e":{"f":null},"g":"null"}`, nil, `<I-42> <{"b":[null,{"d":[]}],"e":{},"g":"null"}>`},
		"drop empty arrays": {router.Options{"table.expand.json.payload": "true", "table.json.payload.empty.array.behavior": "ignore"},
			`{"a":[ ],"b":[[]],"c":null,"d":[{"e":[]},1],"f":[[ ]]}`, nil, `<I-42> <{"b":[[]],"c":null,"d":[{},1],"f":[[]]}>`},
		"drop both, the last ones": {router.Options{"table.expand.json.payload": "true", "table.json.payload.null.behavior": "ignore",
			"table.json.payload.empty.array.behavior": "ignore"}, `{"a":1,"b":null,"c":[]}`, nil, `<I-42> <{"a":1}>`},
		"keep both by name": {router.Options{"table.expand.json.payload": "true", "table.json.payload.null.behavior": "optional_bytes",
			"table.json.payload.empty.array.behavior": "optional_string"}, `{"b":null,"c":[]}`, nil, `<I-42> <{"b":null,"c":[]}>`},

		"json value":                 {router.Options{"format.value": "json"}, `{"a": "ü"}`, nil, `<I-42> <"{\"a\": \"ü\"}">`},
		"json value of null":         {router.Options{"format.value": "json"}, "", func(m *outbox.Message) { m.Payload = nil }, `<I-42> <null>`},
		"json value, tombstone":      {router.Options{"format.value": "json", "route.tombstone.on.empty.payload": "true"}, "", nil, `<I-42> nil`},
		"json value, expanded":       {router.Options{"format.value": "json", "table.expand.json.payload": "true"}, `{"a": 1}`, nil, `<I-42> <{"a":1}>`},
		"json value, not expandable": {router.Options{"format.value": "json", "table.expand.json.payload": "true"}, `{"a`, nil, `<I-42> <"{\"a">`},
		"plain value":                {router.Options{"format.value": "simplestring", "format.key": "binary"}, `{"a": 1}`, nil, `<I-42> <{"a": 1}>`},
		"json key":                   {router.Options{"format.key": "json"}, `x`, nil, `<"I-42"> <x>`},
		"json key that is a number": {router.Options{"format.key": "json"}, `x`, func(m *outbox.Message) {
			m.Key = []byte("42")
			m.Fields = append(m.Fields, outbox.Field{Name: "aggregateid", Value: []byte("42"), Type: outbox.FieldBare})
		}, `<42> <x>`},
		"json key of null": {router.Options{"format.key": "json"}, `x`, func(m *outbox.Message) { m.Key = nil }, `<null> <x>`},
		"json headers": {router.Options{"format.header": "json", placement: "type:header:t,shard:header,nothing:header,yes:header"}, `x`, nil,
			`<I-42> <x> id="m1" t=<"InvoiceIssued"> shard=<7> nothing=<null> yes=<true>`},

		"trace context": {router.Options{"tracing.span.context.field": "trace"}, `x`, nil,
			`<I-42> <x> traceparent=<00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01> tracestate=<a=b>`},
		"trace context of nothing":  {router.Options{"tracing.span.context.field": "nothing"}, `x`, nil, `<I-42> <x>`},
		"trace context of no use":   {router.Options{"tracing.span.context.field": "word"}, `x`, nil, `<I-42> <x>`},
		"trace context, no column":  {router.Options{"tracing.operation.name": "read"}, `x`, nil, `<I-42> <x>`},
		"MongoDB's names":           {router.Options{"collection.expand.json.payload": "true", "collection.fields.additional.placement": "type:header:t"}, `{ }`, nil, `<I-42> <{}> t=<InvoiceIssued>`},
		"what changes nothing here": {router.Options{"table.op.invalid.behavior": "fatal", "table.field.event.schema.version": "version", "collection.op.invalid.behavior": "fatal"}, `x`, nil, `<I-42> <x>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Options: c.options, Sinks: []string{"out"}})
			m := invoice()
			m.Fields = append(m.Fields, outbox.Field{Name: "yes", Value: []byte("true"), Type: outbox.FieldBare}, outbox.Field{Name: "trace",
				Value: []byte("#Sat Nov 21\n! x\n traceparent = 00-0af7651916cd43dd8448eb211c80319c-b7ad\\\r\n   6b7169203331-01\r\ntracestate:a\\=b\nother x")})
			m.Fields[0].Type = outbox.FieldBare
			m.Payload = []byte(c.payload)
			if c.edit != nil {
				c.edit(m)
			}
			var d sink.Delivery
			if _, err := r.Route(m, &d); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, text(&d)); diff != "" {
				t.Errorf("delivery (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldsOfOptions(t *testing.T) {
	t.Parallel()
	shape, _ := outbox.ShapeNamed("debezium")
	for _, c := range []struct {
		options          router.Options
		fields, optional []string
	}{
		{router.Options{}, nil, nil},
		{router.Options{"table.fields.additional.placement": "type:envelope,x:header,type:header"}, []string{"type", "x"}, nil},
		{router.Options{"table.fields.additional.placement": "type:header,x:header", "table.field.additional.missing": "ignore"}, []string{"type", "x"}, []string{"type", "x"}},
		{router.Options{"format.header": "json", "format.key": "json", "table.fields.additional.placement": "type:header"}, []string{"type", "id", "aggregateid"}, nil},
		{router.Options{"tracing.operation.name": "x"}, []string{"tracingspancontext"}, []string{"tracingspancontext"}},
		{router.Options{"tracing.operation.name": "x", "tracing.span.context.field": "c"}, []string{"c"}, []string{"c"}},
		{router.Options{"format.value": "json", "table.expand.json.payload": "true"}, nil, nil},
	} {
		if diff := cmp.Diff(c.fields, c.options.Fields(shape.Columns)); diff != "" {
			t.Errorf("%v: fields (-want +got):\n%s", c.options, diff)
		}
		if diff := cmp.Diff(c.optional, c.options.Optional()); diff != "" {
			t.Errorf("%v: optional (-want +got):\n%s", c.options, diff)
		}
	}
}

// Whatever a row holds, the router answers, and what it says is JSON is JSON.
func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"a":[null,{"b":[]}],"c":1e5}`), []byte("traceparent=\\u0041"), true)
	f.Fuzz(func(t *testing.T, payload, context []byte, drop bool) {
		o := router.Options{"table.expand.json.payload": "true", "format.value": "json", "tracing.span.context.field": "trace"}
		if drop {
			o["table.json.payload.null.behavior"], o["table.json.payload.empty.array.behavior"] = "ignore", "ignore"
		}
		r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Options: o, Sinks: []string{"out"}})
		m := invoice()
		m.Payload, m.Fields = payload, []outbox.Field{{Name: "trace", Value: context}}
		var d sink.Delivery
		if _, err := r.Route(m, &d); err != nil {
			t.Fatal(err)
		}
		if !sink.IsJSON(d.Value) {
			t.Errorf("payload %q became %q", payload, d.Value)
		}
	})
}

func BenchmarkEveryOption(b *testing.B) {
	r := mustNew(b, router.Config{Tables: []outbox.Table{table(b, "debezium", "outbox")}, Sinks: []string{"out"}, Options: router.Options{
		"table.fields.additional.placement": "type:header:eventType,shard:partition,word:envelope", "route.tombstone.on.empty.payload": "true",
		"route.topic.regex": "(?<kind>[a-z]+)", "route.topic.replacement": "events.${kind}", "format.header": "json", "format.key": "json"}})
	m := invoice()
	var d sink.Delivery
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Route(m, &d); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	const str, num, raw = `{"type":"string","optional":false}`, `{"type":"int64","optional":true}`, `{"type":"bytes","optional":true}`
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"}, Options: router.Options{
		"format.key": "json", "format.key.schema": str, "format.value": "json", "format.value.schema": raw, "format.header": "json",
		"format.header.schema": `{"id":` + str + `,"shard":` + num + `}`, "table.fields.additional.placement": "shard:header,type:header",
		"tracing.span.context.field": "trace"}})
	m := invoice()
	m.Fields[0].Type = outbox.FieldBare
	m.Fields = append(m.Fields, outbox.Field{Name: "trace", Value: []byte("traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")})
	var d sink.Delivery
	if _, err := r.Route(m, &d); err != nil {
		t.Fatal(err)
	}
	want := `<{"schema":` + str + `,"payload":"I-42"}> <{"schema":` + raw + `,"payload":"eyJ0b3RhbCI6MTIuNX0="}> id={"schema":` + str + `,"payload":"m1"} shard=<{"schema":` + num +
		`,"payload":7}> type=<"InvoiceIssued"> traceparent=<{"schema":` + str + `,"payload":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}>`
	if diff := cmp.Diff(want, text(&d)); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		options router.Options
		want    string
	}{
		{router.Options{"format.key.schema": str}, "needs format.key: json"},
		{router.Options{"format.key": "json", "format.key.schema": `{"type":"struct"}`}, `has the type "struct"`},
		{router.Options{"format.key": "json", "format.key.schema": `{`}, "must be a schema"},
		{router.Options{"format.header": "json", "format.header.schema": str}, "column optional must be a schema"},
		{router.Options{"format.header": "json", "format.header.schema": `[]`}, "must be a JSON object"},
		{router.Options{"format.value": "json", "format.value.schema": str, "table.expand.json.payload": "true"}, "is for a payload as it stands"},
	} {
		_, err := router.New(router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"}, Options: c.options})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.options, err, c.want)
		}
	}
}
