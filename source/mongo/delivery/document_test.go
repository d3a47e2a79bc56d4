package delivery

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// What is placed can be larger as JSON than the document that it was in: the server would refuse to park it, each time.
func TestParkedDocumentsFit(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 20<<20)
	for name, m := range map[string]*outbox.Message{
		"field": {ID: "1", Table: "shop.outbox", Payload: []byte("p"), Fields: []outbox.Field{{Name: "f", Value: []byte(large)}}},
		"text":  {ID: "1", Table: "shop.outbox", Payload: []byte("p"), CorrelationID: large},
	} {
		p := &checkpoint.Parked{Sink: "s", Message: m}
		var d Document
		d.Carry(p)
		d.Fit(p)
		doc, err := d.MarshalBSON()
		if err != nil || len(doc) > 1<<20 || !d.InTable {
			t.Errorf("%s: a document of %d bytes, in the table: %t, %v", name, len(doc), d.InTable, err)
		}
	}
}
