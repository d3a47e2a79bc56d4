package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// bareMongo is the bare reader of a change stream: the driver's cursor, with a pipeline like the relay's and as large batches. It
// looks up the document of each event, counts, and with -lines prints payloads.
func bareMongo(args []string) error {
	set := flag.NewFlagSet("bare-mongo", flag.ContinueOnError)
	url := set.String("url", "", "server's `URL`")
	database := set.String("database", "", "`NAME` of the table's database")
	from := set.String("from", "", "`TIME` to read from, seconds:ordinal")
	rows := set.Int("rows", 0, "`NUMBER` of rows after which to say so")
	lines := set.Bool("lines", false, "print payloads")
	if err := set.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	at, err := parseTimestamp(*from)
	if err != nil {
		return err
	}
	at.I++ // behind it
	client, err := mongo.Connect(options.Client().ApplyURI(*url))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }() // the process ends
	kinds := bson.A{"insert", "drop", "rename", "dropDatabase", "invalidate"}
	pipeline := bson.A{bson.D{{Key: "$match", Value: bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: kinds}}}}}}}
	changes, err := client.Database(*database).Collection("outbox").Watch(ctx, pipeline,
		options.ChangeStream().SetBatchSize(2000).SetMaxAwaitTime(300*time.Millisecond).SetStartAtOperationTime(&at))
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close(context.WithoutCancel(ctx)) }() // likewise
	fmt.Fprintln(os.Stderr, sayReading)
	for seen := 0; changes.Next(ctx); {
		doc, ok := changes.Current.Lookup("fullDocument").DocumentOK()
		if !ok {
			continue
		}
		if *lines {
			if err := printDocument(doc); err != nil {
				return err
			}
		}
		if seen++; seen == *rows {
			fmt.Fprintln(os.Stderr, sayDone)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return changes.Err()
}

// printDocument writes a document's payload as a line of Extended JSON.
func printDocument(doc bson.Raw) error {
	payload, ok := doc.Lookup("payload").DocumentOK()
	if !ok {
		return fmt.Errorf("print document: it has no payload")
	}
	line, err := bson.MarshalExtJSON(payload, false, false)
	if err != nil {
		return err
	}
	return printLine(line)
}
