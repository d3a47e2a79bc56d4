package store

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A selection with a misspelt name is no request: without the name it would select more.
func TestMisspeltSelection(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{"topic": true, "topics": false} {
		raw, err := bson.Marshal(bson.D{{Key: "_id", Value: int64(1)}, {Key: "verb", Value: "drop"}, {Key: "selection", Value: bson.D{{Key: "sink", Value: "mail"}, {Key: name, Value: "x*"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := readRequest(raw); (err == nil) != good || err != nil && !strings.Contains(err.Error(), `"topics"`) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
