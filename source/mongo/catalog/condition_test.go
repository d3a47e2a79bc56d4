package catalog

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
)

// Words that all are whole numbers are written, and looked for, as numbers.
func TestWordsOfNumbers(t *testing.T) {
	t.Parallel()
	shape, _ := outbox.ShapeNamed("flowcatalyst")
	shape = shape.AsDocuments()
	table := shape.Table("outbox_events")
	if got := table.Words.Value("PENDING"); got != "PENDING" {
		t.Errorf("a word is written as %v", got)
	}
	table.Words = outbox.Words{Pending: "0", Delivered: "1", Retrying: "2", Waiting: "0", Dead: "9000000000"}
	if pending, dead := table.Words.Value("0"), table.Words.Value("9000000000"); pending != int32(0) || dead != int64(9_000_000_000) {
		t.Errorf("numbers are written as %T %v and %T %v", pending, pending, dead, dead)
	}
	if got := Pending(&table); got[0].Value.(bson.D)[0].Value.(bson.A)[0] != int32(0) {
		t.Errorf("pending documents are looked for by %v", got)
	}
}
