package document

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
)

func decodeOne(t *testing.T, table outbox.Table, doc bson.D, limit int) (*outbox.Message, error) {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	d := Decoder{MaxMessage: limit}
	m := d.NewMessage()
	err = d.Decode(NewPlan(&table), raw, m)
	for i := range raw {
		raw[i] = 0xff // nothing of it is kept
	}
	return m, err
}

func TestDecodeIDs(t *testing.T) {
	t.Parallel()
	id := bson.NewObjectID()
	u := []byte("0123456789abcdef")
	for _, test := range []struct {
		id   any
		want string
		kind IDKind
	}{
		{id, id.Hex(), idObjectID},
		{bson.Binary{Subtype: 4, Data: u}, "30313233-3435-3637-3839-616263646566", idUUID},
		{bson.Binary{Subtype: 3, Data: u}, "30313233-3435-3637-3839-616263646566", idUUIDOld},
		{"text", "text", idString}, {"7", "7", idString}, {int32(-7), "-7", idNumber}, {int64(1 << 40), "1099511627776", idNumber}, {7.0, "7", idNumber},
	} {
		m, err := decodeOne(t, mongotest.Table("tailbox"), bson.D{{Key: "_id", Value: test.id}, {Key: "type", Value: "T"}}, 1000)
		if err != nil || m.ID != test.want || IDKind(m.Txn) != test.kind {
			t.Errorf("%v: got %q of kind %d, %v, want %q of kind %d", test.id, m.ID, m.Txn, err, test.want, test.kind)
		}
		// The document is found again by the text, whether its type is known or not.
		for _, kind := range []IDKind{0, test.kind} {
			found := false
			for _, v := range AppendIDs(nil, kind, m.ID) {
				_, a, err1 := bson.MarshalValue(v)
				_, b, err2 := bson.MarshalValue(test.id)
				_, number := v.(int64)
				found = found || err1 == nil && err2 == nil && string(a) == string(b) || number && test.kind == idNumber
			}
			if !found || kind != 0 && len(AppendIDs(nil, kind, m.ID)) != 1 {
				t.Errorf("%v of kind %d: looked for as %v", test.id, kind, AppendIDs(nil, kind, m.ID))
			}
		}
	}
	for _, id := range []any{nil, "", 1.5, bson.D{{Key: "a", Value: 1}}, bson.Binary{Data: []byte("xyz")}, true, strings.Repeat("x", outbox.MaxIndexed+1)} {
		m, err := decodeOne(t, mongotest.Table("tailbox"), bson.D{{Key: "_id", Value: id}, {Key: "type", Value: "T"}, {Key: "message_group", Value: "g"}}, 10000)
		if err != nil || m.ID != "" || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || m.Group != "g" || m.Type != "T" {
			t.Errorf("id %v: got %+v, %v, want a fault", id, m, err)
		}
	}
}

// A group is the text of what has one. What has none, and what is too long, has a stand-in, so that only that group waits: the same
// one for the same value, and another one for another.
func TestDecodeGroups(t *testing.T) {
	t.Parallel()
	id, u := bson.NewObjectID(), []byte("0123456789abcdef")
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	decode := func(limit int, group any) *outbox.Message {
		m, err := decodeOne(t, mongotest.Table("tailbox"), bson.D{{Key: "_id", Value: 1}, {Key: "type", Value: "T"}, {Key: "payload", Value: "p"},
			{Key: "message_group", Value: group}}, limit)
		if err != nil {
			t.Fatalf("group %v: %v", group, err)
		}
		return m
	}
	for _, test := range []struct {
		group any
		want  string
	}{
		{"g", "g"}, {"", ""}, {nil, ""}, {bson.Undefined{}, ""}, {int32(-7), "-7"}, {int64(1 << 40), "1099511627776"}, {7.0, "7"}, {1.5, "1.5"}, {true, "true"},
		{id, id.Hex()}, {bson.Binary{Subtype: 4, Data: u}, "30313233-3435-3637-3839-616263646566"}, {at, "2026-01-02T03:04:05.006Z"},
		{bson.D{{Key: "a", Value: 1}}, `{"a":1}`}, {bson.A{"x", 1}, `["x",1]`},
	} {
		if m := decode(1000, test.group); m.Group != test.want || m.Fault != nil {
			t.Errorf("%v: got %q, fault %+v, want %q", test.group, m.Group, m.Fault, test.want)
		}
	}
	deep := bson.D{}
	for range maxDepth + 1 {
		deep = bson.D{{Key: "a", Value: deep}}
	}
	seen := map[string]bool{}
	for _, group := range []any{[]byte("xyz"), []byte("xyy"), bson.Binary{Subtype: 4, Data: []byte("short")}, bson.Regex{Pattern: "a", Options: "i"}, bson.Timestamp{T: 1},
		bson.Timestamp{T: 2}, bson.MinKey{}, bson.MaxKey{}, bson.CodeWithScope{Code: "x", Scope: bson.D{}}, deep,
		strings.Repeat("g", outbox.MaxGroup+1)} {
		m := decode(1<<20, group)
		if m.Group == "" || len(m.Group) > outbox.MaxIndexed || seen[m.Group] || m.ID != "1" || m.Type != "T" || string(m.Payload) != "p" || m.Fault == nil ||
			m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "field message_group") {
			t.Errorf("%T: got %+v, fault %+v, want a stand-in of its own", group, m, m.Fault)
		}
		seen[m.Group] = true
		if again := decode(1<<20, group); again.Group != m.Group {
			t.Errorf("%T: stand-ins %q and %q", group, m.Group, again.Group)
		}
		if large := decode(1, group); large.Group != m.Group || large.Fault.Class != outbox.FaultUndecodable || !strings.Contains(large.Fault.Reason, "max_message") {
			t.Errorf("%T in a document that is too large: got %q, %+v, want %q", group, large.Group, large.Fault, m.Group)
		}
	}
}

// A group of several fields has a stand-in if one of them is odd, and is none if one is missing.
func TestDecodeGroupOfFields(t *testing.T) {
	t.Parallel()
	table := mongotest.Table("tailbox")
	table.Columns.Group = []string{"a", "b"}
	for _, test := range []struct {
		a, b any
		odd  string
	}{{"x", []byte("y"), "field b"}, {[]byte("x"), "y", "field a"}, {[]byte("x"), nil, ""}, {nil, []byte("y"), ""}} {
		m, err := decodeOne(t, table, bson.D{{Key: "_id", Value: 1}, {Key: "type", Value: "T"}, {Key: "a", Value: test.a}, {Key: "b", Value: test.b}}, 1000)
		switch {
		case err != nil:
			t.Errorf("%v:%v: %v", test.a, test.b, err)
		case test.odd == "" && (m.Group != "" || m.Fault != nil):
			t.Errorf("%v:%v: got group %q, fault %+v, want none", test.a, test.b, m.Group, m.Fault)
		case test.odd != "" && (m.Group == "" || m.Fault == nil || !strings.Contains(m.Fault.Reason, test.odd)):
			t.Errorf("%v:%v: got group %q, fault %+v, want it to name %s", test.a, test.b, m.Group, m.Fault, test.odd)
		}
	}
}

func TestDecodeColumns(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	m, err := decodeOne(t, mongotest.Table("tailbox"), bson.D{{Key: "_id", Value: "1"}, {Key: "type", Value: "T"}, {Key: "topic", Value: "t"}, {Key: "message_group", Value: int64(42)},
		{Key: "key", Value: bson.Binary{Data: []byte{0, 1}}}, {Key: "payload", Value: bson.D{{Key: "n", Value: int32(1)}}}, {Key: "priority", Value: 7.0},
		{Key: "available_at", Value: at}, {Key: "created_at", Value: int64(1700000000)}, {Key: "max_attempts", Value: "3"}, {Key: "unknown", Value: 1},
		{Key: "headers", Value: bson.D{{Key: "b", Value: "x"}, {Key: "a", Value: nil}, {Key: "n", Value: int32(5)}}}}, 10000)
	if err != nil || m.Fault != nil {
		t.Fatal(err, m.Fault)
	}
	var headers []string
	for _, h := range m.Headers {
		headers = append(headers, h.Name+"="+string(h.Value))
	}
	if m.Topic != "t" || m.Group != "42" || string(m.Key) != "\x00\x01" || string(m.Payload) != `{"n":1}` || m.Priority != 7 || m.MaxAttempts != 3 ||
		!m.AvailableAt.Equal(at) || m.CreatedAt.Unix() != 1700000000 || strings.Join(headers, " ") != "b=x a= n=5" || m.Headers[1].Value != nil {
		t.Errorf("got %+v, headers %q", m, headers)
	}
	for _, doc := range []bson.D{
		{{Key: "type", Value: nil}}, {{Key: "type", Value: "T"}, {Key: "priority", Value: "x"}}, {{Key: "type", Value: "T"}, {Key: "available_at", Value: true}},
		{{Key: "type", Value: "T"}, {Key: "headers", Value: bson.A{}}}, {{Key: "type", Value: "T"}, {Key: "headers", Value: `["x"]`}},
	} {
		m, err := decodeOne(t, mongotest.Table("tailbox"), append(bson.D{{Key: "_id", Value: "1"}, {Key: "message_group", Value: "g"}}, doc...), 10000)
		if err != nil || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || m.Group != "g" {
			t.Errorf("%v: got %+v, %v, want a fault", doc, m, err)
		}
	}
	// Debezium does not look at the type of an outbox event.
	for _, doc := range []bson.D{{{Key: "type", Value: nil}}, nil} {
		m, err := decodeOne(t, mongotest.Table("debezium"), append(bson.D{{Key: "_id", Value: "1"}, {Key: "payload", Value: "p"}}, doc...), 10000)
		if err != nil || m.Fault != nil || m.Type != "" || string(m.Payload) != "p" {
			t.Errorf("%v: got %+v, %v, fault %+v, want a message without a type", doc, m, err, m.Fault)
		}
	}
	// As BSON it fits, as JSON it does not.
	m, err = decodeOne(t, mongotest.Table("tailbox"), bson.D{{Key: "_id", Value: "1"}, {Key: "type", Value: "T"}, {Key: "payload", Value: bson.D{{Key: "a", Value: strings.Repeat("\x01", 500)}}}}, 1000)
	if err != nil || m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil {
		t.Errorf("got %+v, %v, want too large", m.Fault, err)
	}
}
