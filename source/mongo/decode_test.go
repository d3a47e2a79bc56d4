package mongo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// kitTable is a table of a shape, with the id in _id.
func kitTable(shape string) outbox.Table {
	s, _ := outbox.ShapeNamed(shape)
	t := outbox.Table{Schema: "shop", Name: "outbox", Shape: shape, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
	t.Columns.ID = "_id"
	return t
}

func decodeOne(t *testing.T, table outbox.Table, doc bson.D, limit int) (*outbox.Message, error) {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	d := decoder{maxMessage: limit}
	m := d.NewMessage()
	err = d.decode(newPlan(&table), raw, m)
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
		kind idKind
	}{
		{id, id.Hex(), idObjectID},
		{bson.Binary{Subtype: 4, Data: u}, "30313233-3435-3637-3839-616263646566", idUUID},
		{bson.Binary{Subtype: 3, Data: u}, "30313233-3435-3637-3839-616263646566", idUUIDOld},
		{"text", "text", idString}, {"7", "7", idString}, {int32(-7), "-7", idNumber}, {int64(1 << 40), "1099511627776", idNumber}, {7.0, "7", idNumber},
	} {
		m, err := decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: test.id}, {Key: "type", Value: "T"}}, 1000)
		if err != nil || m.ID != test.want || idKind(m.Txn) != test.kind {
			t.Errorf("%v: got %q of kind %d, %v, want %q of kind %d", test.id, m.ID, m.Txn, err, test.want, test.kind)
		}
		// The document is found again by the text, whether its type is known or not.
		for _, kind := range []idKind{0, test.kind} {
			found := false
			for _, v := range appendIDs(nil, kind, m.ID) {
				_, a, err1 := bson.MarshalValue(v)
				_, b, err2 := bson.MarshalValue(test.id)
				_, number := v.(int64)
				found = found || err1 == nil && err2 == nil && string(a) == string(b) || number && test.kind == idNumber
			}
			if !found || kind != 0 && len(appendIDs(nil, kind, m.ID)) != 1 {
				t.Errorf("%v of kind %d: looked for as %v", test.id, kind, appendIDs(nil, kind, m.ID))
			}
		}
	}
	for _, id := range []any{nil, "", 1.5, bson.D{{Key: "a", Value: 1}}, bson.Binary{Data: []byte("xyz")}, true, strings.Repeat("x", outbox.MaxIndexed+1)} {
		m, err := decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: id}, {Key: "type", Value: "T"}, {Key: "message_group", Value: "g"}}, 10000)
		if err != nil || m.ID != "" || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || m.Group != "g" || m.Type != "T" {
			t.Errorf("id %v: got %+v, %v, want a fault", id, m, err)
		}
	}
	m, err := decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: 1}, {Key: "type", Value: "T"}, {Key: "message_group", Value: strings.Repeat("g", outbox.MaxIndexed+1)}}, 10000)
	if err != nil || m.Fault == nil || len(m.Group) > outbox.MaxIndexed || m.Group == "" {
		t.Errorf("a long group: %+v, %v", m, err)
	}
	if _, err := decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: 1}, {Key: "type", Value: "T"}, {Key: "message_group", Value: []byte("xyz")}}, 10000); !errors.Is(err, source.ErrStop) {
		t.Errorf("a group that is binary: %v, want an error that stops", err)
	}
}

func TestDecodeColumns(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	m, err := decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: "1"}, {Key: "type", Value: "T"}, {Key: "topic", Value: "t"}, {Key: "message_group", Value: int64(42)},
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
		m, err := decodeOne(t, kitTable("tailbox"), append(bson.D{{Key: "_id", Value: "1"}, {Key: "message_group", Value: "g"}}, doc...), 10000)
		if err != nil || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || m.Group != "g" {
			t.Errorf("%v: got %+v, %v, want a fault", doc, m, err)
		}
	}
	// As BSON it fits, as JSON it does not.
	m, err = decodeOne(t, kitTable("tailbox"), bson.D{{Key: "_id", Value: "1"}, {Key: "type", Value: "T"}, {Key: "payload", Value: bson.D{{Key: "a", Value: strings.Repeat("\x01", 500)}}}}, 1000)
	if err != nil || m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil {
		t.Errorf("got %+v, %v, want too large", m.Fault, err)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range []place{{at: opTimeOf(1700000000, 3)}, {at: 1}, {opTimeOf(1700000000, 1<<32-1), true}} {
		if got, err := parsePlace(p.resume()); err != nil || got != p {
			t.Errorf("%q: got %v, %v", p.resume(), got, err)
		}
	}
	for _, text := range []source.Resume{"", "1", "1:", ":1", "1:x", "-1:1", "4294967296:1", "ended", "ended 1"} {
		if p, err := parsePlace(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, p)
		}
	}
}
