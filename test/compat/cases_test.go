package compat

import (
	"fmt"

	"github.com/tailbox/tailbox/router"
)

// columns are those of the outbox table, with the types that Debezium's connector for Postgres gives them.
type column struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Logical string `json:"logical,omitempty"`
}

func columns() []column {
	return []column{
		{"id", "STRING", "io.debezium.data.Uuid"}, {"aggregatetype", "STRING", ""}, {"aggregateid", "STRING", ""}, {"type", "STRING", ""},
		{"payload", "STRING", "io.debezium.data.Json"}, {"number", "INT64", ""}, {"shard", "INT32", ""}, {"yes", "BOOLEAN", ""}, {"word", "STRING", ""},
		{"micros", "INT64", "io.debezium.time.MicroTimestamp"}, {"millis", "INT64", "io.debezium.time.Timestamp"}, {"nanos", "INT64", "io.debezium.time.NanoTimestamp"}, {"raw", "BYTES", ""},
	}
}

// A row is what a table holds: strings, int64s, booleans and bytes; nil is NULL.
type row map[string]any

func with(changes row) row {
	r := row{"id": "0f3c1f5e-0000-4000-8000-000000000001", "aggregatetype": "invoice", "aggregateid": "I-42", "type": "InvoiceIssued",
		"payload": `{"total": 12.5, "lines": ["a", "b"]}`, "number": int64(1) << 53, "shard": int64(3), "yes": true, "word": "seven",
		"micros": int64(1700000000123456), "millis": int64(1700000000123), "nanos": int64(1700000000123456789), "raw": []byte(`{"a": 1}`)}
	for name, value := range changes {
		r[name] = value
	}
	return r
}

func rows() []row {
	list := []row{
		with(nil),
		with(row{"aggregatetype": nil}),
		with(row{"aggregatetype": ""}),
		with(row{"aggregateid": nil}),
		with(row{"aggregateid": ""}),
		with(row{"aggregatetype": "Order$1\\x", "aggregateid": "ключ \"x\""}),
		with(row{"aggregatetype": "order-placed.v2"}),
		with(row{"number": nil, "shard": nil, "yes": nil, "word": nil, "micros": nil, "millis": nil, "nanos": nil, "raw": nil}),
		with(row{"type": nil}),
		with(row{"type": "", "raw": []byte{}}),
		with(row{"raw": []byte(" \n")}),
		with(row{"raw": []byte("\xde\xad\xff\x00")}),
		with(row{"shard": int64(-1), "number": int64(-5), "yes": false, "word": ""}),
		with(row{"word": "12", "type": "true"}),
		with(row{"word": "{\"a\":1}", "type": " \"quoted\" \\ "}),
		with(row{"payload": nil}),
	}
	for _, payload := range []string{"", "  \n", " {}", "{}", "[]", "text", "12", `"text"`, "null", "a\b\f\n\r\t\x01\x1f\u007f\u2028é\"\\/😀",
		`{"a": {"b": {"c": [1, 2, 3], "d": "x"}}, "e": [true, false]}`, `{"a": null, "b": {"c": null}, "d": 1}`, `{"a": [], "b": {"c": []}, "d": 1}`,
		`{"a": [1, "x"]}`, `{"a": [1, 2.5]}`, `{"a": [null, "x"]}`, `{"a": [null]}`, `{"a": [[]]}`, `[1, 2]`, `[{"a": 1}]`, `{"a":`, `{"a": 1} x`, `{"a": 12.50}`, `{"a": 1e3, "b": 100000000000000000000}`,
		`{"a": 2147483648, "b": -9223372036854775808, "c": 0, "d": -1}`, `{"a": "\u00e9 \/ \ud83d\ude00"}`, `{"a": "\n \t \" \\ \u0001"}`, `{"a": [{"x": 1}, {"y": 2}]}`, `{"a": [{"x": 1, "y": "z"}, {"x": 2, "y": "w"}]}`,
		`{"a": 1, "a": 2}`, `{"": 1, "b c": 2, "d.e": 3}`, `{"b": 1, "a": {"z": true, "y": "q"}}`, `{"a": {}}`, `{"a": [{}]}`, `{"a": 0.1, "b": -2.75, "c": 39.98}`} {
		list = append(list, with(row{"payload": payload}))
	}
	return list
}

// cases are sets of options; a contradiction or mistake that both refuse is one too.
func cases() []router.Options {
	const placement = "table.fields.additional.placement"
	list := []router.Options{{}}
	add := func(pairs ...string) {
		o := router.Options{}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i]] = pairs[i+1]
		}
		list = append(list, o)
	}
	for _, rule := range [][2]string{{`(?<routedByValue>.*)`, `x.${routedByValue}`}, {`(.*)`, `$1.events`}, {`(.*)`, `$1$1`}, {`(in)(v)(.*)`, `$3-$2-$1`}, {`inv`, `x`}, {`i|inv|invoice`, `x`},
		{`(?<kind>[a-z]+)-(?<what>[a-z]+)\.(?<version>.*)`, `${version}/${kind}/${what}`}, {`.*`, `all`}, {`(.*)`, `\$1`}, {`(.*)`, `a\\b$10`}, {`(?i)INVOICE`, `i`}, {`([^.]*)(\..*)?`, `$1$2`},
		{`(.)*`, `$1`}, {`(?:inv)(oice)?`, `<$1>`}, {`(.*`, `x`}, {`(.*)`, `${none}`}} {
		add("route.topic.regex", rule[0], "route.topic.replacement", rule[1])
	}
	add("route.topic.replacement", "fixed")
	for _, rule := range [][2]string{{`outbox\.event\.(.*)`, `app.$1`}, {`event\..*`, `x`}, {`(?<all>.*)`, `${all}.v1`}, {`outbox|outbox.*`, `x`}, {`(.*`, `x`}, {`.*`, `$2`}} {
		add("route.topic.then.regex", rule[0], "route.topic.then.replacement", rule[1])
	}
	add("route.topic.regex", `(.*)-(.*)`, "route.topic.replacement", `$2`, "route.topic.then.regex", `(.).*`, "route.topic.then.replacement", `$1`)
	for _, column := range []string{"type", "word", "aggregateid"} {
		add("route.by.field", column)
		add("table.field.event.key", column)
		add("table.field.event.payload", column)
	}
	for _, column := range []string{"word", "type"} {
		add("table.field.event.id", column)
	}
	for _, column := range []string{"micros", "millis", "nanos"} {
		add("table.field.event.timestamp", column)
	}
	add("table.field.event.type", "word")
	add("table.op.invalid.behavior", "error")
	add("route.tombstone.on.empty.payload", "true")
	add("route.tombstone.on.empty.payload", "false")
	for _, p := range []string{"type:header", "type:header:eventType", "type:header:a,type:header:b", "number:header,shard:header,yes:header:ok,word:header", "aggregateid:header, aggregatetype:header:t",
		"shard:partition", "shard:partition,type:header", "type:envelope", "type:envelope:eventType", "number:envelope,shard:envelope:s,yes:envelope,word:envelope", "type:header:h,type:envelope:e,shard:partition",
		"payload:header", "raw:header", "raw:envelope", "id:header:copy", "id:envelope", "none:header", "none:envelope", "type:nowhere", "type"} {
		add(placement, p)
	}
	add(placement, "none:header,type:header", "table.field.additional.missing", "ignore")
	add(placement, "none:envelope,type:envelope", "table.field.additional.missing", "ignore")
	add(placement, "none:header", "table.field.additional.missing", "error")
	add(placement, "type:partition")
	add(placement, "type:envelope", "route.tombstone.on.empty.payload", "true")
	add(placement, "type:envelope", "table.field.event.schema.version", "shard")
	drop := []string{"table.expand.json.payload", "true", "table.json.payload.null.behavior", "ignore", "table.json.payload.empty.array.behavior", "ignore"}
	add("table.expand.json.payload", "true")
	add("table.expand.json.payload", "true", "table.json.payload.null.behavior", "optional_bytes")
	add(drop...)
	add(append(drop, placement, "type:envelope")...)
	add(append(drop, "route.tombstone.on.empty.payload", "true")...)
	add(append(drop, "format.value", "json")...)
	add("table.json.payload.null.behavior", "ignore")
	add("format.value", "json")
	add("format.key", "json")
	add("format.header", "json", placement, "type:header,number:header,shard:header,yes:header,word:header")
	add("format.key", "json", "format.value", "json", "format.header", "json")
	add("format.value", "json", "route.tombstone.on.empty.payload", "true")
	add("format.value", "json", placement, "word:envelope")
	const text, uuid, document = `{"type":"string","optional":true}`, `{"type":"string","optional":true,"name":"io.debezium.data.Uuid"}`, `{"type":"string","optional":true,"name":"io.debezium.data.Json"}`
	add("format.key", "json", "format.key.schema", text, "format.value", "json", "format.value.schema", document, "format.header", "json", "format.header.schema", `{"id":`+uuid+`}`)
	add("format.value", "json", "format.value.schema", document, "route.tombstone.on.empty.payload", "true")
	add("format.key", "json", "format.key.schema", `{"type":"int64","optional":true}`, "table.field.event.key", "number")
	add("format.header", "json", placement, "type:header:t,number:header,shard:header,yes:header,word:header", "format.header.schema", `{"id":`+uuid+`,"type":`+text+`,"word":`+text+
		`,"number":{"type":"int64","optional":true},"shard":{"type":"int32","optional":true},"yes":{"type":"boolean","optional":true}}`)
	add("format.key", "simplestring", "format.value", "simplestring")
	const binary, bytes = "table.field.event.payload", `{"type":"bytes","optional":true}`
	add(binary, "raw", "format.value", "json")
	add(binary, "raw", "format.value", "json", "table.expand.json.payload", "true")
	add(binary, "raw", "format.value", "json", "route.tombstone.on.empty.payload", "true")
	add(binary, "raw", "format.value", "json", "format.value.schema", bytes)
	add(binary, "raw", placement, "type:envelope")
	add(binary, "raw", placement, "raw:envelope,raw:header")
	add("table.field.event.key", "raw", "format.key", "json")
	add("table.field.event.key", "raw", "format.key", "json", "format.key.schema", bytes)
	add(placement, "raw:header:sig", "format.header", "json")
	add(placement, "raw:header:sig", "format.header", "json", "format.header.schema", `{"id":`+uuid+`,"raw":`+bytes+`}`)
	add("table.field.event.type", "none")
	add("route.by.field", "number")
	add(placement, "number:partition")
	add("table.field.event.key", "number")
	add("table.field.event.id", "number", "format.header", "json")
	add(binary, "number", "format.value", "json")
	add(binary, "yes", placement, "type:envelope")
	return list
}

// name is what a case is called in a failure.
func name(o router.Options) string { return fmt.Sprint(map[string]string(o)) }
