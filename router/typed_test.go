package router_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// In the shape debezium a column is written as Debezium's connectors send one of its type, elsewhere as the database prints it. What
// real columns of Postgres become is held against Debezium in test/compat.
func TestTypedColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ                  outbox.FieldType
		value                string
		header, json, tailed string
	}{
		{outbox.FieldText, "a", "a", `"a"`, `"a"`},
		{outbox.FieldBare, "7", "7", "7", "7"},
		{outbox.FieldBytes, "\xde\xff", "3v8=", `"3v8="`, `"3v8="`},
		{outbox.FieldBytes, "text", "dGV4dA==", `"dGV4dA=="`, `"text"`},
		{outbox.FieldBytes, "", "", `""`, `""`},
		{outbox.FieldHex, `\xdeff`, "3v8=", `"3v8="`, `"3v8="`},
		{outbox.FieldHex, `\x74657874`, "dGV4dA==", `"dGV4dA=="`, `"text"`},
		{outbox.FieldHex, `\x`, "", `""`, `""`},
		{outbox.FieldHex, `\xno`, `\xno`, `"\\xno"`, `"\\xno"`},
		{outbox.FieldFloat64, "1e+10", "1.0E10", "1.0E10", `"1e+10"`},
		{outbox.FieldFloat64, "-1.25e-05", "-1.25E-5", "-1.25E-5", `"-1.25e-05"`},
		{outbox.FieldFloat64, "9999999.5", "9999999.5", "9999999.5", `"9999999.5"`},
		{outbox.FieldFloat64, "-0", "-0.0", "-0.0", `"-0"`},
		{outbox.FieldFloat64, "NaN", "NaN", `"NaN"`, `"NaN"`},
		{outbox.FieldFloat64, "-Infinity", "-Infinity", `"-Infinity"`, `"-Infinity"`},
		{outbox.FieldFloat32, "0.1", "0.1", "0.1", `"0.1"`},
		{outbox.FieldFloat32, "16777216", "1.6777216E7", "1.6777216E7", `"16777216"`},
		{outbox.FieldDate, "2024-02-29", "19782", "19782", `"2024-02-29"`},
		{outbox.FieldDate, "0001-01-01", "-719162", "-719162", `"0001-01-01"`},
		{outbox.FieldDate, "infinity", "infinity", `"infinity"`, `"infinity"`},
		{outbox.FieldDate, "0044-03-15 BC", "0044-03-15 BC", `"0044-03-15 BC"`, `"0044-03-15 BC"`},
		{outbox.FieldDate, "0000-00-00", "0000-00-00", `"0000-00-00"`, `"0000-00-00"`},
		{outbox.FieldDate, "2024-02-30", "2024-02-30", `"2024-02-30"`, `"2024-02-30"`},
		{outbox.FieldTimeMillis, "03:04:05.12", "11045120", "11045120", `"03:04:05.12"`},
		{outbox.FieldTimeMicros, "-838:59:59.000001", "-3020399000001", "-3020399000001", `"-838:59:59.000001"`},
		{outbox.FieldTimeMicros, "24:00:00", "86400000000", "86400000000", `"24:00:00"`},
		{outbox.FieldTimeMicros, "03:04", "03:04", `"03:04"`, `"03:04"`},
		{outbox.FieldDatetimeMillis, "1969-12-31 23:59:59.5", "-500", "-500", `"1969-12-31 23:59:59.5"`},
		{outbox.FieldDatetimeMicros, "2024-01-02 03:04:05.123456", "1704164645123456", "1704164645123456", `"2024-01-02 03:04:05.123456"`},
		{outbox.FieldDatetimeMicros, "294246-12-31 23:59:59.999999", "9223371244799999999", "9223371244799999999", `"294246-12-31 23:59:59.999999"`},
		{outbox.FieldDatetimeMicros, "294276-12-31 23:59:59", "294276-12-31 23:59:59", `"294276-12-31 23:59:59"`, `"294276-12-31 23:59:59"`},
		{outbox.FieldDatetimeMicros, "0044-03-15 01:02:03 BC", "0044-03-15 01:02:03 BC", `"0044-03-15 01:02:03 BC"`, `"0044-03-15 01:02:03 BC"`},
		{outbox.FieldDatetimeMicros, "2024-01-02", "2024-01-02", `"2024-01-02"`, `"2024-01-02"`},
		{outbox.FieldDatetimeMillis, "0000-00-00 00:00:00", "0000-00-00 00:00:00", `"0000-00-00 00:00:00"`, `"0000-00-00 00:00:00"`},
		{outbox.ZonedType(6), "2024-01-02 03:04:05.5+00", "2024-01-02T03:04:05.500000Z", `"2024-01-02T03:04:05.500000Z"`, `"2024-01-02 03:04:05.5+00"`},
		{outbox.ZonedType(3), "2024-01-02 03:04:05+00", "2024-01-02T03:04:05.000Z", `"2024-01-02T03:04:05.000Z"`, `"2024-01-02 03:04:05+00"`},
		{outbox.ZonedType(0), "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", `"2024-01-02T03:04:05Z"`, `"2024-01-02 03:04:05"`},
		{outbox.ZonedType(2), "2024-01-02 03:04:05.12", "2024-01-02T03:04:05.12Z", `"2024-01-02T03:04:05.12Z"`, `"2024-01-02 03:04:05.12"`},
		{outbox.ZonedType(6), "12024-01-02 03:04:05+00", "+12024-01-02T03:04:05.000000Z", `"+12024-01-02T03:04:05.000000Z"`, `"12024-01-02 03:04:05+00"`},
		{outbox.ZonedType(6), "infinity", "infinity", `"infinity"`, `"infinity"`},
		{outbox.ZonedType(6), "", "", `""`, `""`},
		{"of a later version", "x", "x", `"x"`, `"x"`},
	} {
		m := invoice()
		m.Fields = []outbox.Field{{Name: "c", Value: []byte(c.value), Type: c.typ}}
		for _, shape := range []string{"debezium", "tailbox"} {
			made := mustNew(t, router.Config{Tables: []outbox.Table{table(t, shape, "outbox")}, Sinks: []string{"out"},
				Options: router.Options{"table.fields.additional.placement": "c:header,c:envelope"}})
			var d sink.Delivery
			if _, err := made.Route(m, &d); err != nil {
				t.Fatal(err)
			}
			header, json := c.header, c.json
			if shape == "tailbox" {
				header, json = c.value, c.tailed
			}
			if diff := cmp.Diff(`{"payload":"{\"total\":12.5}","c":`+json+`}`, string(d.Value)); diff != "" {
				t.Errorf("%s: %s %q in an envelope (-want +got):\n%s", shape, c.typ, c.value, diff)
			}
			bytes := shape == "tailbox" && c.typ == outbox.FieldHex // see TestPlacedBytes
			if got := d.Headers[0].Value; string(got) != header && !bytes || got == nil {
				t.Errorf("%s: %s %q as a header is %q, want %q", shape, c.typ, c.value, got, header)
			}
		}
	}
}

// A binary payload is bytes to Debezium, even where it looks like text: it is neither expanded nor blank.
func TestBinaryPayload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options               router.Options
		payload               string
		want, tailbox, asText string
	}{
		{router.Options{"table.expand.json.payload": "true"}, `{"a" : 1}`, `{"a" : 1}`, `{"a":1}`, `{"a":1}`},
		{router.Options{"table.expand.json.payload": "true", "format.value": "json"}, `{"a" : 1}`, `"eyJhIiA6IDF9"`, `{"a":1}`, `{"a":1}`},
		{router.Options{"format.value": "json"}, `x`, `"eA=="`, `"x"`, `"x"`},
		{router.Options{"route.tombstone.on.empty.payload": "true"}, ` `, ` `, ``, ``},
		{router.Options{"table.fields.additional.placement": "type:envelope"}, `x`, `{"payload":"eA==","type":"InvoiceIssued"}`, `{"payload":"x","type":"InvoiceIssued"}`, `{"payload":"x","type":"InvoiceIssued"}`},
	} {
		for _, shape := range []string{"debezium", "tailbox", "text"} {
			m, of, want := invoice(), shape, c.want
			m.Payload, m.Binary = []byte(c.payload), shape != "text"
			switch shape {
			case "tailbox":
				want = c.tailbox
			case "text":
				of, want = "debezium", c.asText
			}
			var d sink.Delivery
			if _, err := mustNew(t, router.Config{Tables: []outbox.Table{table(t, of, "outbox")}, Sinks: []string{"out"}, Options: c.options}).Route(m, &d); err != nil {
				t.Fatal(err)
			}
			if string(d.Value) != want {
				t.Errorf("%s, %v: payload %q became %q, want %q", shape, c.options, c.payload, d.Value, want)
			}
		}
	}
}

// A row without a type has no header of it, and one without the column is told from that where it may be missing.
func TestPlacedTypeIsMissing(t *testing.T) {
	t.Parallel()
	const placement = "table.fields.additional.placement"
	for _, c := range []struct {
		options router.Options
		fields  []outbox.Field
		want    []outbox.Header
	}{
		{router.Options{placement: "type:header"}, nil, []outbox.Header{{Name: "type"}}},
		{router.Options{placement: "type:header", "table.field.additional.missing": "ignore"}, nil, nil},
		{router.Options{placement: "type:header", "table.field.additional.missing": "ignore"}, []outbox.Field{{Name: "type", Null: true}}, []outbox.Header{{Name: "type"}}},
	} {
		m := invoice()
		m.Type, m.Fields = "", c.fields
		var d sink.Delivery
		if _, err := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"}, Options: c.options}).Route(m, &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, d.Headers); diff != "" {
			t.Errorf("%v, %+v: headers (-want +got):\n%s", c.options, c.fields, diff)
		}
	}
	columns := func(o router.Options) bool {
		shape, _ := outbox.ShapeNamed("debezium")
		return o.NeedsType(shape.Columns)
	}
	if columns(router.Options{}) || !columns(router.Options{placement: "type:header"}) || columns(router.Options{placement: "type:header", "table.field.additional.missing": "ignore"}) {
		t.Error("the type is needed where it is placed and must not be missing, and nowhere else")
	}
}

// Whatever a column holds, and whatever its type is said to be, an envelope is JSON.
func FuzzTyped(f *testing.F) {
	for _, typ := range []outbox.FieldType{outbox.FieldText, outbox.FieldFloat32, outbox.FieldFloat64, outbox.FieldBytes, outbox.FieldHex, outbox.FieldDate, outbox.FieldTimeMillis,
		outbox.FieldTimeMicros, outbox.FieldDatetimeMillis, outbox.FieldDatetimeMicros, outbox.ZonedType(0), outbox.ZonedType(6)} {
		f.Add(string(typ), []byte("2024-01-02 03:04:05.5+00"))
		f.Add(string(typ), []byte("-12:34:56.1"))
	}
	made := mustNew(f, router.Config{Tables: []outbox.Table{table(f, "debezium", "outbox")}, Sinks: []string{"out"},
		Options: router.Options{"table.fields.additional.placement": "c:envelope,c:header"}})
	f.Fuzz(func(t *testing.T, typ string, value []byte) {
		if outbox.FieldType(typ) == outbox.FieldBare {
			return // sources say that of JSON alone
		}
		m := invoice()
		m.Fields = []outbox.Field{{Name: "c", Value: value, Type: outbox.FieldType(typ)}}
		var d sink.Delivery
		if _, err := made.Route(m, &d); err != nil {
			t.Fatal(err)
		}
		if !sink.IsJSON(d.Value) {
			t.Errorf("%s %q became %q", typ, value, d.Value)
		}
	})
}

// What an operator changed counts, though the row's columns go along as they were: they still say what type it is of.
func TestEditedColumns(t *testing.T) {
	t.Parallel()
	made := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"}, Options: router.Options{"format.key": "json", "format.header": "json",
		"table.fields.additional.placement": "type:header,aggregatetype:envelope"}})
	for _, c := range []struct{ key, want string }{{"42", "42"}, {"43", "43"}, {"x", `"x"`}, {"[1]", `"[1]"`}, {"", `""`}} {
		m := invoice()
		m.ID, m.Type, m.Topic, m.Key = "new", "Changed", "moved", []byte(c.key)
		m.Fields = []outbox.Field{{Name: "id", Value: []byte("m1")}, {Name: "type", Null: true}, {Name: "aggregatetype", Value: []byte("invoice")},
			{Name: "aggregateid", Value: []byte("42"), Type: outbox.FieldBare}}
		var d sink.Delivery
		if _, err := made.Route(m, &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("<"+c.want+`> <{"payload":"{\"total\":12.5}","aggregatetype":"moved"}> id="new" type=<"Changed">`, text(&d)); diff != "" {
			t.Errorf("edited delivery (-want +got):\n%s", diff)
		}
	}
}

// Bytes in a header are the bytes, whichever database they come from, but for tables of shape debezium.
func TestPlacedBytes(t *testing.T) {
	t.Parallel()
	for _, f := range []outbox.Field{{Name: "c", Value: []byte(`\xde00ff`), Type: outbox.FieldHex}, {Name: "c", Value: []byte("\xde\x00\xff"), Type: outbox.FieldBytes}} {
		for shape, want := range map[string]string{"tailbox": "\xde\x00\xff", "debezium": "3gD/"} {
			m := invoice()
			m.Fields = []outbox.Field{f}
			var d sink.Delivery
			if _, err := mustNew(t, router.Config{Tables: []outbox.Table{table(t, shape, "outbox")}, Sinks: []string{"out"},
				Options: router.Options{"table.fields.additional.placement": "c:header"}}).Route(m, &d); err != nil {
				t.Fatal(err)
			}
			if got := string(d.Headers[0].Value); got != want {
				t.Errorf("%s, %s: header %q, want %q", f.Type, shape, got, want)
			}
		}
	}
}
