package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

const everythingDDL = `CREATE TYPE mood AS ENUM ('sad', 'happy');; CREATE DOMAIN label AS varchar(50);; CREATE DOMAIN deep AS label;;
CREATE TABLE everything (id bigint PRIMARY KEY, type mood, topic deep, grp1 int, grp2 char(5), key uuid, payload bytea, headers jsonb,
	tenant text, content_type varchar(99), idempotency_key text, correlation_id uuid, priority smallint, available_at timestamptz,
	max_attempts int, created_at timestamp, f_bool bool, f_date date, f_ts timestamptz, f_json json, f_bytea bytea, f_int8 bigint, f_oid oid, f_text text %s)`

func everything() outbox.Table {
	return outbox.Table{Schema: "public", Name: "everything", Shape: "tailbox", OnDelivered: outbox.Delete,
		Columns: outbox.Columns{ID: "id", Type: "type", Topic: "topic", Group: []string{"grp1", "grp2"}, Key: "key", Payload: "payload",
			Headers: "headers", Tenant: "tenant", ContentType: "content_type", IdempotencyKey: "idempotency_key",
			CorrelationID: "correlation_id", Priority: "priority", AvailableAt: "available_at", MaxAttempts: "max_attempts", CreatedAt: "created_at"},
		Fields: []string{"f_bool", "f_date", "f_ts", "f_json", "f_bytea", "f_int8", "f_oid", "f_text"}}
}

const everythingRows = `INSERT INTO everything VALUES
	(1, 'happy', 'a topic', 7, 'ab', '01234567-89ab-cdef-0123-456789abcdef', '\x00ff10', '{"b": "x", "a": "q\"\u00e9", "n": 1.50, "o": {"k": [1, "}"]}, "z": null}',
	 't1', 'text/plain', 'idem', 'ffffffff-0000-0000-0000-000000000001', -3, '2031-02-03 04:05:06.789+02', 9, '2026-01-02 03:04:05.000006',
	 true, '2024-02-29', '1999-12-31 23:59:59.5+00', '{"a" : 1}', '\xdead', -9223372036854775808, 4294967295, ''),
	(2, 'sad', NULL, NULL, 'ab', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(3, 'sad', '', -1, '', NULL, '', '{}', '', '', '', NULL, 0, 'infinity', 0, '-infinity', false, '0044-03-15 BC', '0044-03-15 01:02:03+00 BC', '[]', '', 0, 0, E'\u00fc')`

func TestAllColumnTypes(t *testing.T) {
	t.Parallel()
	want := []*outbox.Message{
		{ID: "1", Type: "happy", Topic: "a topic", Group: "7:ab", Key: []byte("01234567-89ab-cdef-0123-456789abcdef"), Payload: []byte{0, 255, 16}, Binary: true,
			Headers: []outbox.Header{{Name: "a", Value: []byte(`q"é`)}, {Name: "b", Value: []byte("x")}, {Name: "n", Value: []byte("1.50")},
				{Name: "o", Value: []byte(`{"k": [1, "}"]}`)}, {Name: "z"}},
			Tenant: "t1", ContentType: "text/plain", IdempotencyKey: "idem", CorrelationID: "ffffffff-0000-0000-0000-000000000001",
			Priority: -3, MaxAttempts: 9, AvailableAt: time.Date(2031, 2, 3, 2, 5, 6, 789e6, time.UTC), CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
			Table: "public.everything",
			Fields: []outbox.Field{{Name: "f_bool", Value: []byte("true"), Type: outbox.FieldBare}, {Name: "f_date", Value: []byte("2024-02-29"), Type: outbox.FieldDate},
				{Name: "f_ts", Value: []byte("1999-12-31 23:59:59.5+00"), Type: outbox.ZonedType(6)}, {Name: "f_json", Value: []byte(`{"a" : 1}`)}, {Name: "f_bytea", Value: []byte(`\xdead`), Type: outbox.FieldHex},
				{Name: "f_int8", Value: []byte("-9223372036854775808"), Type: outbox.FieldBare}, {Name: "f_oid", Value: []byte("4294967295"), Type: outbox.FieldBare}, {Name: "f_text", Value: []byte("")}}},
		{ID: "2", Type: "sad", Table: "public.everything", Binary: true,
			Fields: []outbox.Field{{Name: "f_bool", Null: true, Type: outbox.FieldBare}, {Name: "f_date", Null: true, Type: outbox.FieldDate}, {Name: "f_ts", Null: true, Type: outbox.ZonedType(6)}, {Name: "f_json", Null: true},
				{Name: "f_bytea", Null: true, Type: outbox.FieldHex}, {Name: "f_int8", Null: true, Type: outbox.FieldBare}, {Name: "f_oid", Null: true, Type: outbox.FieldBare}, {Name: "f_text", Null: true}}},
		{ID: "3", Type: "sad", Group: "-1:", Payload: []byte{}, Binary: true, Table: "public.everything", AvailableAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
			Fields: []outbox.Field{{Name: "f_bool", Value: []byte("false"), Type: outbox.FieldBare}, {Name: "f_date", Value: []byte("0044-03-15 BC"), Type: outbox.FieldDate},
				{Name: "f_ts", Value: []byte("0044-03-15 01:02:03+00 BC"), Type: outbox.ZonedType(6)}, {Name: "f_json", Value: []byte(`[]`)}, {Name: "f_bytea", Value: []byte(`\x`), Type: outbox.FieldHex},
				{Name: "f_int8", Value: []byte("0"), Type: outbox.FieldBare}, {Name: "f_oid", Value: []byte("0"), Type: outbox.FieldBare}, {Name: "f_text", Value: []byte("ü")}}},
	}
	for _, test := range []struct {
		name, ddl string
		fields    []string
	}{
		{"binary", "", nil},
		// A numeric field has no binary form that is known, so that all comes as text.
		{"text", ", f_num numeric DEFAULT 12.30", []string{"f_num"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table := everything()
			table.Fields = append(table.Fields, test.fields...)
			r := pgtest.NewRig(t, servers.Shared(t, "17"), fmt.Sprintf(everythingDDL, test.ddl), table)
			from := r.Establish()
			r.Exec("SET datestyle = 'German'")
			r.Exec("SET timezone = 'Asia/Kathmandu'")
			r.Exec(everythingRows)
			x := r.Run(source.Start{From: from})
			got, _ := x.Messages(3)
			var swept []*outbox.Message
			snap, err := r.Other().Establish(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = snap.Close(context.Background()) }()
			if sweep, err := snap.Judge(context.Background(), source.Known{}); err != nil || !sweep {
				t.Fatalf("Judge returned %v, %v", sweep, err)
			}
			if err := snap.Pending(context.Background(), 1, func(_ context.Context, b *source.Batch) error {
				swept = append(swept, b.Messages...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(swept, func(a, b *outbox.Message) int { return strings.Compare(a.ID, b.ID) })
			r.Mu.Lock()
			if log := r.Log.String(); !strings.Contains(log, fmt.Sprintf("binary=%v", test.name == "binary")) {
				t.Errorf("log: %s", log)
			}
			r.Mu.Unlock()
			for _, from := range []struct {
				name string
				ms   []*outbox.Message
			}{{"log", got}, {"table", swept}} {
				for i, m := range from.ms {
					w := *want[i]
					if len(test.fields) > 0 {
						w.Fields = append(w.Fields[:8:8], outbox.Field{Name: "f_num", Value: []byte("12.30")})
					}
					g := *m
					g.Position, g.CommitTime, g.Txn = outbox.Position{}, time.Time{}, 0
					if d := cmp.Diff(w, g); d != "" {
						t.Errorf("%s, row %d (-want +got):\n%s", from.name, i+1, d)
					}
					if (g.Payload == nil) != (w.Payload == nil) {
						t.Errorf("%s, row %d: payload %v, want %v", from.name, i+1, g.Payload, w.Payload)
					}
				}
			}
		})
	}
}

// Debezium does not look at the type of an outbox event: neither where it is NULL nor where the table has none is a row of its shape dead.
func TestRowsWithoutType(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), `CREATE TABLE a (id text, aggregatetype text, aggregateid text, type text, payload text)`, pgtest.Shape("debezium", "a"))
	from := r.Establish()
	r.Exec(`INSERT INTO a VALUES ('1', 'a', 'g', NULL, 'p')`)
	r.Exec(`ALTER TABLE a DROP type`)
	r.Exec(`INSERT INTO a VALUES ('2', 'a', 'g', 'p')`)
	ms, _ := r.Run(source.Start{From: from}).Messages(2)
	for _, m := range ms {
		if m.Fault != nil || m.Type != "" || m.Group != "a:g" || string(m.Payload) != "p" {
			t.Errorf("message %s: %+v, fault %+v", m.ID, m, m.Fault)
		}
	}
}

// Fields tell their types with the digits that a column, or its domain, keeps behind the second; the log and the table tell the same.
func TestFieldTypes(t *testing.T) {
	t.Parallel()
	types := []struct {
		declared string
		want     outbox.FieldType
	}{{"timestamptz(3)", outbox.ZonedType(3)}, {"timestamp(3)", outbox.FieldDatetimeMillis}, {"timestamp(4)", outbox.FieldDatetimeMicros}, {"seconds", outbox.FieldDatetimeMillis},
		{"deepest", outbox.FieldDatetimeMillis}, {"time(0)", outbox.FieldTimeMillis}, {"time", outbox.FieldTimeMicros}, {"real", outbox.FieldFloat32}, {"float8", outbox.FieldFloat64},
		{"date", outbox.FieldDate}, {"numeric", outbox.FieldText}, {"varchar(5)", outbox.FieldText}}
	table, ddl := pgtest.Shape("debezium", "a"), "CREATE DOMAIN seconds AS timestamp(0);; CREATE DOMAIN deepest AS seconds;; CREATE TABLE a (id text, aggregatetype text, aggregateid text, payload bytea"
	for i, c := range types {
		ddl += fmt.Sprintf(", f%d %s", i, c.declared)
		table.Fields = append(table.Fields, fmt.Sprintf("f%d", i))
	}
	r := pgtest.NewRig(t, servers.Shared(t, "17"), ddl+")", table)
	from := r.Establish()
	r.Exec("INSERT INTO a VALUES ('1', 'a', 'g', 'p')")
	ms, _ := r.Run(source.Start{From: from}).Messages(1)
	snap, err := r.Other().Establish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snap.Close(context.Background()) }()
	if _, err := snap.Judge(context.Background(), source.Known{}); err != nil {
		t.Fatal(err)
	}
	if err := snap.Pending(context.Background(), 1, func(_ context.Context, b *source.Batch) error {
		ms = append(ms, b.Messages...)
		return nil
	}); err != nil || len(ms) != 2 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	for _, m := range ms {
		for i, c := range types {
			if got := m.Fields[i].Type; got != c.want || !m.Binary {
				t.Errorf("%s is of type %q, want %q; binary payload: %v", c.declared, got, c.want, m.Binary)
			}
		}
	}
}

// A key of bytes is the bytes, by whatever road, as in the other databases; in the shape debezium it is the text that Debezium sends.
func TestByteaKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ shape, extra, ddl, want string }{
		"binary":   {"tailbox", "", "id text PRIMARY KEY, type text, key bytea, payload bytea", "\xde\x00\xff"},
		"text":     {"tailbox", "n", "id text PRIMARY KEY, type text, key bytea, payload bytea, n numeric", "\xde\x00\xff"},
		"debezium": {"debezium", "", "id text PRIMARY KEY, type text, aggregatetype text, aggregateid bytea, payload bytea", `\xde00ff`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := pgtest.Shape(c.shape, "a")
			if c.extra != "" {
				table.Fields = []string{c.extra}
			}
			r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a ("+c.ddl+")", table)
			r.Cfg.Start = "pending"
			r.Src = stream.New(r.Cfg)
			from := r.Establish()
			r.Exec(`INSERT INTO a (id, type, ` + table.Columns.Key + `, payload) VALUES ('1', 't', '\xde00ff', ''), ('2', 't', '', ''), ('3', 't', NULL, '')`)
			if c.shape == "debezium" {
				r.Exec(`UPDATE a SET aggregatetype = 'x'`)
			}
			check := func(road string, ms []*outbox.Message) {
				t.Helper()
				empty := map[bool]string{true: `\x`}[c.shape == "debezium"]
				if len(ms) != 3 || string(ms[0].Key) != c.want || ms[1].Key == nil || string(ms[1].Key) != empty || ms[2].Key != nil {
					t.Errorf("%s: got keys %q, %q and %q", road, ms[0].Key, ms[1].Key, ms[2].Key)
				}
			}
			ms, _ := r.Run(source.Start{From: from}).Messages(3)
			check("the log", ms)
			snap, _, err := r.Snapshot(true, false)
			if err != nil {
				t.Fatal(err)
			}
			ms, _ = r.Pending(snap)
			check("a sweep", ms)
		})
	}
}

func TestUndecodableRows(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), `CREATE TABLE a (id text, type text, message_group text, payload text, headers jsonb, priority bigint, available_at text)`, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	r.Exec(`INSERT INTO a VALUES ('1', 't', 'g', 'p', '[1]', 0, NULL), ('2', NULL, 'g', 'p', '{}', 0, NULL),
		('3', 't', 'g', 'p', NULL, 1::bigint<<40, NULL), ('4', 't', 'g', 'p', NULL, NULL, 'tomorrow')`)
	r.Exec(`INSERT INTO a VALUES ('5', 't', 'g', 'p', '{"ok": "yes"}', 5, '2030-01-01T00:00:00Z')`)
	r.Exec(`INSERT INTO a VALUES (NULL, 't', 'g', 'p'), ('', 't', 'g', 'p'), (repeat('ä', 600), 't', 'g', 'p')`)
	r.Exec(`INSERT INTO a VALUES ('6', 't', repeat('ü', 40000), 'p'), ('7', 't', 'x' || repeat('ü', 40000), 'p'), ('8', 't', repeat('ü', 40000), 'p'),
		(repeat('9', 1024), 't', repeat('g', 1024), 'p')`)
	ms, _ := r.Run(source.Start{From: from, Log: 7}).Messages(12)
	for i, column := range []string{"headers", "type", "priority", "available_at"} {
		m := ms[i]
		if m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "column "+column+" of public.a") ||
			strings.Contains(m.Fault.Reason, "tomorrow") {
			t.Errorf("message %s: fault %+v, want one about %s", m.ID, m.Fault, column)
		}
		if m.ID == "" || m.Group != "g" || string(m.Payload) != "p" {
			t.Errorf("message %d: what can be read is missing: %+v", i, m)
		}
	}
	if m := ms[4]; m.Fault != nil || m.Priority != 5 || !m.AvailableAt.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("message 5: %+v", m)
	}
	for _, m := range ms[5:8] {
		if m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "id (column id) of a row of public.a") ||
			m.ID != outbox.StandInID(m.Position.String()) || m.Group != "g" || string(m.Payload) != "p" {
			t.Errorf("a row without an id: %+v, %+v", m, m.Fault)
		}
	}
	for i, m := range ms[8:11] {
		if m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "column message_group") ||
			m.ID != fmt.Sprint(i+6) || len(m.Group) > 300 || !strings.Contains(m.Group, "üüü") {
			t.Errorf("a row with a long group: %+v, %+v", m, m.Fault)
		}
	}
	if ms[8].Group != ms[10].Group || ms[8].Group == ms[9].Group {
		t.Errorf("groups %q, %q and %q: want the first and the last to be one", ms[8].Group, ms[9].Group, ms[10].Group)
	}
	if m := ms[11]; m.Fault != nil || len(m.ID) != 1024 || len(m.Group) != 1024 {
		t.Errorf("a row with an id and a group of 1024 bytes: %+v", m)
	}
	again, _ := r.Run(source.Start{From: from, Log: 7}).Messages(12)
	if pgtest.IDs(again) != pgtest.IDs(ms) || again[5].ID == again[6].ID {
		t.Errorf("read again: %s, want %s", pgtest.IDs(again), pgtest.IDs(ms))
	}
}

func TestLargeRows(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"binary", "text"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			table := pgtest.Shape("tailbox", "a")
			extra := ""
			if mode == "text" {
				table.Fields, extra = []string{"n"}, ", n numeric DEFAULT 1"
			}
			r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id text PRIMARY KEY, payload bytea, type text, message_group text, ignored text"+extra+")", table)
			r.Cfg.MaxMessage = 3 << 20
			r.Src = stream.New(r.Cfg)
			from := r.Establish()
			sizes := []int{10, 3<<20 - 9, 3 << 20, 300 << 10, 40 << 20, 255 << 10, 256 << 10, 1}
			for i, n := range sizes {
				r.Exec(`INSERT INTO a VALUES ($1, decode(repeat('5a', $2), 'hex'), 'big', 'gr', repeat('i', 500000))`, fmt.Sprint(i), n)
			}
			r.Exec(`INSERT INTO a VALUES ('z', 'x', 'big', repeat('g', 4000000))`)
			x := r.Run(source.Start{From: from})
			var ms []*outbox.Message
			for len(ms) <= len(sizes) {
				ms = append(ms, x.Next().Messages...)
			}
			if m := ms[len(sizes)]; m.ID != "z" || m.Fault == nil || m.Group != outbox.StandInGroup(strings.Repeat("g", 4_000_000)) || m.Payload != nil {
				t.Errorf("a row with a group of 4 MB: %+v", m.Fault)
			}
			for i, n := range sizes {
				m := ms[i]
				if m.ID != fmt.Sprint(i) || m.Type != "big" || m.Group != "gr" {
					t.Errorf("message %d: id %q type %q group %q", i, m.ID, m.Type, m.Group)
				}
				// Beside the payload: 1 byte of id, 3 of type, 2 of group, 1 of n as text.
				fixed := 6
				if mode == "text" {
					fixed++
				}
				if tooLarge := n+fixed > 3<<20; tooLarge {
					if m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil {
						t.Errorf("message %d of %d bytes: fault %+v, payload of %d bytes", i, n, m.Fault, len(m.Payload))
					}
				} else if m.Fault != nil || !bytes.Equal(m.Payload, bytes.Repeat([]byte{0x5a}, n)) {
					t.Errorf("message %d: fault %+v, payload of %d bytes, want %d", i, m.Fault, len(m.Payload), n)
				}
			}
		})
	}
}
