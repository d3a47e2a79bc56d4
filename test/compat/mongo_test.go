package compat

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/test/servers"
)

// documents are those of an outbox: the first one, changed.
func documents() []bson.D {
	with := func(changes ...bson.E) bson.D {
		d := bson.D{{Key: "aggregatetype", Value: "invoice"}, {Key: "aggregateid", Value: "I-42"}, {Key: "type", Value: "InvoiceIssued"},
			{Key: "payload", Value: `{"total": 12.5, "lines": ["a", "b"]}`}, {Key: "number", Value: int64(1) << 53}, {Key: "shard", Value: int32(3)},
			{Key: "yes", Value: true}, {Key: "word", Value: "seven"}, {Key: "millis", Value: int64(1700000000123)}}
		for _, c := range changes {
			for i := range d {
				if d[i].Key == c.Key {
					d[i].Value = c.Value
				}
			}
			if c.Key == "_id" {
				d = append(bson.D{c}, d...)
			}
		}
		return d
	}
	return []bson.D{
		with(),
		with(bson.E{Key: "_id", Value: "0f3c1f5e-0000-4000-8000-000000000001"}),
		with(bson.E{Key: "aggregatetype", Value: "Order$1\\x"}, bson.E{Key: "aggregateid", Value: "ключ \"x\""}),
		with(bson.E{Key: "aggregatetype", Value: "order-placed.v2"}, bson.E{Key: "shard", Value: int32(0)}, bson.E{Key: "number", Value: int64(-5)}, bson.E{Key: "yes", Value: false}),
		with(bson.E{Key: "payload", Value: "text"}, bson.E{Key: "word", Value: "12"}),
		with(bson.E{Key: "payload", Value: ""}, bson.E{Key: "type", Value: " \"quoted\" \\ "}),
		with(bson.E{Key: "payload", Value: "a\b\n\t\u2028é\"\\/😀"}),
		with(bson.E{Key: "payload", Value: bson.D{{Key: "a", Value: int32(1)}, {Key: "b", Value: bson.A{"x", "y"}}, {Key: "c", Value: bson.D{{Key: "d", Value: true}}}}}),
	}
}

// mongoCases are the sets of options that MongoDB's router has, under its own names.
func mongoCases() (list []router.Options) {
	for _, o := range cases() {
		own, known := router.Options{}, true
		for name, value := range o {
			if rest, ok := strings.CutPrefix(name, "table."); ok && !strings.HasPrefix(rest, "op.") {
				name = "collection." + rest
			}
			for _, none := range []string{"raw", "micros", "nanos", "number:partition", "type:partition"} {
				known = known && !strings.Contains(value, none)
			}
			known = known && !strings.HasPrefix(name, "collection.json.") && !strings.HasSuffix(name, ".schema")
			own[name] = value
		}
		if known {
			list = append(list, own)
		}
	}
	return list
}

// What tailbox makes of a document is what Debezium's connector and router for MongoDB make of it, from the same log.
func TestDocumentsAreDebezium(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	db := server.NewDatabase(t)
	client := server.Client(t)
	if err := client.Database(db).CreateCollection(t.Context(), "outbox"); err != nil {
		t.Fatal(err)
	}
	table := func(o router.Options) outbox.Table {
		t := tableOf(o)
		t.Schema = db
		if _, named := o.Columns()["id"]; !named {
			t.Columns.ID = "_id"
		}
		return t
	}
	read := func(o router.Options) source.Source {
		return mongo.Config{Config: source.Config{Pipeline: "compare", URL: server.URL(), Schema: db, Tables: []outbox.Table{table(o)}, MaxMessage: 1 << 20,
			Logger: slog.New(slog.DiscardHandler)}}.Source()
	}
	snap, err := read(router.Options{}).Establish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, sets := documents(), mongoCases()
	if len(sets) < 40 {
		t.Fatalf("%d sets of options", len(sets))
	}
	answers := make(chan [][]answer, 1)
	go func() {
		defer close(answers)
		answers <- theirs(t, map[string]any{"mongo": true, "cases": sets, "count": len(all), "connector": map[string]string{
			"name": "compare", "connector.class": "io.debezium.connector.mongodb.MongoDbConnector", "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
			"topic.prefix": "server", "mongodb.connection.string": server.URL(), "snapshot.mode": "no_data", "collection.include.list": db + ".outbox"}})
	}()
	until(t, "Debezium to read", func() (bool, error) {
		operations, err := client.Database("admin").Aggregate(t.Context(), bson.A{bson.D{{Key: "$currentOp", Value: bson.D{{Key: "idleCursors", Value: true}}}}})
		if err != nil {
			return false, err
		}
		var all []bson.Raw
		err = operations.All(t.Context(), &all)
		return slices.ContainsFunc(all, func(o bson.Raw) bool { return strings.Contains(o.String(), "$changeStream") }), err
	})
	for _, d := range all {
		if _, err := client.Database(db).Collection("outbox").InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	debezium := <-answers
	if len(debezium) != len(sets) {
		t.Fatalf("Debezium answered %d cases of %d", len(debezium), len(sets))
	}
	equal, failures, meant := 0, 0, documentDifferences()
	explained := make([]int, len(meant))
	for n, o := range sets {
		made, err := router.New(router.Config{Tables: []outbox.Table{table(o)}, Options: o, Sinks: []string{"out"}})
		var ours []answer
		if err != nil {
			for range all {
				ours = append(ours, answer{Error: err.Error()})
			}
		} else {
			ours = routedFrom(t, read(o), snap.Resume(), made, len(all))
		}
		for i, got := range ours {
			want := comparable(debezium[n][i])
			got.Timestamp = nil
			if want.equal(got) {
				equal++
				continue
			}
			if k := slices.IndexFunc(meant, func(d documentDifference) bool { return d.is(o, all[i], want, got) }); k >= 0 {
				explained[k]++
				continue
			}
			if failures++; failures <= 20 {
				t.Errorf("%s\ndocument %v\nDebezium: %v\ntailbox:  %v", name(o), all[i], want, got)
			}
		}
	}
	t.Logf("%d sets of options, %d documents: %d equal, %d different without a reason", len(sets), len(all), equal, failures)
	for k, d := range meant {
		t.Logf("%d times: %s", explained[k], d.reason)
		if explained[k] == 0 {
			t.Errorf("a difference that does not occur: %s", d.reason)
		}
	}
}

// A documentDifference is one that is meant. It has to occur, or the list says too much.
type documentDifference struct {
	reason string
	is     func(o router.Options, d bson.D, theirs, ours answer) bool
}

func documentDifferences() []documentDifference {
	isText := func(d bson.D) bool {
		return slices.ContainsFunc(d, func(e bson.E) bool { _, text := e.Value.(string); return e.Key == "payload" && text })
	}
	payloadOf := func(o router.Options) string { return columnOf(o, "collection.field.event.payload", "payload") }
	return []documentDifference{
		{"a payload that is a document is JSON in one line, with numbers as they are; Debezium writes several lines and the types of numbers, unless it expands payloads",
			func(o router.Options, d bson.D, theirs, ours answer) bool {
				return !isText(d) && payloadOf(o) == "payload" && o["collection.expand.json.payload"] == "" &&
					(theirs.sameBut(ours) || strings.Contains(o["collection.fields.additional.placement"], "payload:"))
			}},
		{"a document without a field has null there; Debezium stops", func(_ router.Options, _ bson.D, theirs, ours answer) bool {
			return (strings.Contains(theirs.Error, "Unable to find field") || strings.Contains(theirs.Error, "not a valid field name")) && ours.Error == ""
		}},
		{"a field to route by need not be a text: its text counts, whatever its type", func(_ router.Options, _ bson.D, theirs, ours answer) bool {
			return strings.Contains(theirs.Error, "is not of type STRING") && ours.Error == ""
		}},
		{"a payload that is a text and holds JSON is expanded too; Debezium expands documents alone", func(o router.Options, d bson.D, theirs, ours answer) bool {
			return isText(d) && o["collection.expand.json.payload"] == "true" && theirs.sameBut(ours)
		}},
		{"a payload that is a number or a boolean is a text where it becomes JSON, and has no quotes at Debezium", func(o router.Options, _ bson.D, theirs, ours answer) bool {
			quotes := strings.NewReplacer(`"true"`, "true", `"false"`, "false", `"9007199254740992"`, "9007199254740992", `"-5"`, "-5")
			return (payloadOf(o) == "number" || payloadOf(o) == "yes") && theirs.sameBut(ours) && quotes.Replace(string(ours.Value)) == string(theirs.Value)
		}},
	}
}

// routedFrom is what the router makes of what a source reads from a place on.
func routedFrom(t *testing.T, s source.Source, from source.Resume, made *router.Router, n int) (answers []answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Run(ctx, source.Start{From: from}, func(_ context.Context, b *source.Batch) error {
		for _, m := range b.Messages {
			if m.Fault != nil {
				answers = append(answers, answer{Error: m.Fault.Reason})
				continue
			}
			answers = append(answers, routed(made, m))
		}
		if len(answers) >= n {
			cancel()
		}
		return nil
	})
	if len(answers) != n {
		t.Fatalf("%d messages of %d were read: %v", len(answers), n, err)
	}
	return answers
}
