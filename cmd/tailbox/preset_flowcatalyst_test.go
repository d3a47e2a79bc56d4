package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/test/servers"
)

const flowcatalystConfig = `
pipeline: client
source: {kind: "${KIND}", url: "${DATABASE_URL}", SOURCE reconcile: 500ms, tables: [{shape: flowcatalyst}, {name: outbox_dispatch_jobs, shape: flowcatalyst}]}
routes:
  - {match: {table: "*.outbox_events"}, to: [events]}
  - {match: {table: "*.outbox_dispatch_jobs"}, to: [jobs]}
sinks:
  events: {kind: http, url: "${API}/api/events/batch", bearer: token-1}
  jobs: {kind: http, url: "${API}/api/dispatch/jobs/batch", bearer: token-1}
retry: {schedule: [20ms, 20ms, 2100ms]}
admin: {listen: off}
`

// A client is an application of the platform with its database.
type client interface {
	// write inserts a row as the client's library does, in a transaction.
	write(t *testing.T, table, id, kind, group, payload string)
	// show is status, retry count, whether it is processed, and the error.
	show(t *testing.T, table, id string) string
	// reset sets a row back to pending with another payload.
	reset(t *testing.T, table, id, payload string)
}

// TestFlowcatalyst: a client's tables, made by init, in each of its databases; events and jobs are posted in batches, in order per group, to the
// API's two paths with its token.
func TestFlowcatalyst(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgres", "mysql", "mariadb", "mongodb"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			api := newPlatform(t, "token-1")
			r, c := newClient(t, kind)
			r.env["KIND"], r.env["API"] = kind, api.URL
			r.must("init")
			r.must("check")
			testFlowcatalyst(t, r, c, api)
		})
	}
}

func newClient(t *testing.T, kind string) (*rig, client) {
	t.Helper()
	switch kind {
	case "postgres":
		r := newRig(t, strings.Replace(flowcatalystConfig, "SOURCE", `slot: "${SLOT}",`, 1))
		return r, sqlClient{func(ctx context.Context, sql string, args ...any) error {
			_, err := r.conn.Exec(ctx, fmt.Sprintf(sql, "$1", "$2", "$3", "$4", "$5"), args...)
			return err
		}, func(_ context.Context, sql string) string { return r.ask(sql) }}
	case "mongodb":
		server := servers.SharedMongo(t)
		name := server.NewDatabase(t)
		r := &rig{t: t, file: write(t, "tailbox.yaml", strings.Replace(flowcatalystConfig, "SOURCE", `schema: "${DATABASE}",`, 1)),
			env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": name}}
		return r, mongoClient{server.Client(t), name}
	}
	server := servers.SharedMySQL(t, kind)
	name := server.NewDatabase(t)
	r := &rig{t: t, file: write(t, "tailbox.yaml", strings.Replace(flowcatalystConfig, "SOURCE", "", 1)), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}}
	return r, sqlClient{func(ctx context.Context, sql string, args ...any) error {
		conn, err := server.Connect(ctx, name)
		if err != nil {
			return err
		}
		_, err = conn.Execute(fmt.Sprintf(sql, "?", "?", "?", "?", "?"), args...)
		return errors.Join(err, conn.Close())
	}, func(ctx context.Context, sql string) string {
		conn, err := server.Connect(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		got, err := conn.Execute("SELECT " + sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		text, err := got.GetString(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}}
}

func testFlowcatalyst(t *testing.T, r *rig, c client, api *platform) {
	const events, jobs = "/api/events/batch", "/api/dispatch/jobs/batch"
	message := func(n string) string { return fmt.Sprintf(`{"n": %q, "data": {"order": 42}}`, n) }
	stop := r.relay()
	c.write(t, "outbox_events", "0HZXEQ5Y8JY5A", "EVENT", "order:42", message("e1"))
	c.write(t, "outbox_dispatch_jobs", "0HZXEQ5Y8JY5B", "DISPATCH_JOB", "", message("j1"))
	until(t, "one of each", func() bool { return api.took(events, "e1") == 1 && api.took(jobs, "j1") == 1 })
	for table, id := range map[string]string{"outbox_events": "0HZXEQ5Y8JY5A", "outbox_dispatch_jobs": "0HZXEQ5Y8JY5B"} {
		until(t, "the row of "+id, func() bool { return c.show(t, table, id) == "COMPLETED 0 processed" })
	}

	// A head that fails holds its group back, and no other; it waits as PENDING, with its error.
	api.refuses("e2", http.StatusInternalServerError)
	c.write(t, "outbox_events", "0HZXEQ5Y8JY5C", "EVENT", "order:42", message("e2"))
	c.write(t, "outbox_events", "0HZXEQ5Y8JY5D", "EVENT", "order:42", message("e3"))
	c.write(t, "outbox_events", "0HZXEQ5Y8JY5E", "EVENT", "order:43", message("e4"))
	until(t, "a parked head", func() bool { return strings.HasPrefix(c.show(t, "outbox_events", "0HZXEQ5Y8JY5C"), "PENDING 3 - ") })
	until(t, "the other group", func() bool { return api.took(events, "e4") == 1 })
	if got := c.show(t, "outbox_events", "0HZXEQ5Y8JY5C"); !strings.Contains(got, "500") {
		t.Errorf("the row that is retried: %s", got)
	}
	until(t, "a dead letter after the fourth attempt", func() bool { return strings.HasPrefix(c.show(t, "outbox_events", "0HZXEQ5Y8JY5C"), "FAILED 4 - ") })
	if got := c.show(t, "outbox_events", "0HZXEQ5Y8JY5D"); !strings.HasPrefix(got, "PENDING 0 -") {
		t.Errorf("the row behind it: %s", got)
	}
	if api.took(events, "e3") != 0 {
		t.Error("a message overtook the head of its group")
	}

	// An operator mends it: plain SQL, or the update of MongoDB.
	c.reset(t, "outbox_events", "0HZXEQ5Y8JY5C", message("mended"))
	until(t, "the group to go on", func() bool { return api.inOrder(events, "e1", "mended", "e3") })
	for id, want := range map[string]string{"0HZXEQ5Y8JY5C": "COMPLETED ", "0HZXEQ5Y8JY5D": "COMPLETED 0 processed"} {
		until(t, "the row of "+id, func() bool { return strings.HasPrefix(c.show(t, "outbox_events", id), want) })
	}

	// What the API calls bad is not tried again, and its neighbours in a batch do not suffer; a wrong token loses nothing.
	api.refuses("worst", http.StatusUnprocessableEntity)
	c.write(t, "outbox_dispatch_jobs", "0HZXEQ5Y8JY5F", "DISPATCH_JOB", "", message("worst"))
	for i := range 5 {
		c.write(t, "outbox_dispatch_jobs", fmt.Sprintf("0HZXEQ5Y8JY6%d", i), "DISPATCH_JOB", "", message(fmt.Sprint("n", i)))
	}
	until(t, "the neighbours", func() bool { return api.inOrder(jobs, "n0") && api.took(jobs, "n4") == 1 })
	until(t, "a dead job", func() bool {
		return strings.HasPrefix(c.show(t, "outbox_dispatch_jobs", "0HZXEQ5Y8JY5F"), "FAILED 1 - ")
	})
	api.refuses("worst", 0)
	if out := r.must("dead", "replay", "0HZXEQ5Y8JY5F"); !strings.Contains(out, "1 delivery") {
		t.Errorf("dead replay: %s", out)
	}
	until(t, "the job", func() bool { return api.took(jobs, "worst") == 1 })
	until(t, "its row", func() bool {
		return strings.HasPrefix(c.show(t, "outbox_dispatch_jobs", "0HZXEQ5Y8JY5F"), "COMPLETED ")
	})

	// A row that is set back after it was delivered goes out again.
	c.reset(t, "outbox_events", "0HZXEQ5Y8JY5A", message("e1"))
	until(t, "the event once more", func() bool { return api.took(events, "e1") == 2 })
	until(t, "its row", func() bool { return strings.HasPrefix(c.show(t, "outbox_events", "0HZXEQ5Y8JY5A"), "COMPLETED ") })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}

// sqlClient has a database with tables.
type sqlClient struct {
	exec func(ctx context.Context, sql string, args ...any) error
	ask  func(ctx context.Context, expression string) string
}

func (c sqlClient) write(t *testing.T, table, id, kind, group, payload string) {
	t.Helper()
	var g any
	if group != "" {
		g = group
	}
	if err := c.exec(t.Context(), "INSERT INTO "+table+" (id, type, message_group, payload, status, created_at) VALUES (%s, %s, %s, %s, %s, CURRENT_TIMESTAMP)",
		id, kind, g, payload, "PENDING"); err != nil {
		t.Fatal(err)
	}
}

func (c sqlClient) show(t *testing.T, table, id string) string {
	t.Helper()
	return c.ask(t.Context(), "(SELECT CONCAT_WS(' ', status, retry_count, CASE WHEN processed_at IS NULL THEN '-' ELSE 'processed' END, error_message) FROM "+
		table+" WHERE id = '"+id+"')")
}

func (c sqlClient) reset(t *testing.T, table, id, payload string) {
	t.Helper()
	if err := c.exec(t.Context(), "UPDATE "+table+" SET payload = %[1]s, status = 'PENDING', retry_count = 0, error_message = NULL WHERE id = '"+id+"' AND '' <> %[2]s",
		payload, "x"); err != nil {
		t.Fatal(err)
	}
}

// mongoClient has collections.
type mongoClient struct {
	client *mongo.Client
	name   string
}

func (c mongoClient) write(t *testing.T, table, id, kind, group, payload string) {
	t.Helper()
	doc := bson.D{{Key: "_id", Value: id}, {Key: "type", Value: kind}, {Key: "messageGroup", Value: nil}, {Key: "payload", Value: payload},
		{Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: 0}, {Key: "createdAt", Value: time.Now()}}
	if group != "" {
		doc[2].Value = group
	}
	session, err := c.client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	if _, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return c.client.Database(c.name).Collection(table).InsertOne(ctx, doc)
	}); err != nil {
		t.Fatal(err)
	}
}

func (c mongoClient) show(t *testing.T, table, id string) string {
	t.Helper()
	var row struct {
		Status       string
		RetryCount   int        `bson:"retryCount"`
		ProcessedAt  *time.Time `bson:"processedAt"`
		ErrorMessage *string    `bson:"errorMessage"`
	}
	if err := c.client.Database(c.name).Collection(table).FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&row); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(row.Status, " ", row.RetryCount, " -")
	if row.ProcessedAt != nil {
		text = strings.TrimSuffix(text, "-") + "processed"
	}
	if row.ErrorMessage != nil {
		text += " " + *row.ErrorMessage
	}
	return text
}

func (c mongoClient) reset(t *testing.T, table, id, payload string) {
	t.Helper()
	if _, err := c.client.Database(c.name).Collection(table).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "payload", Value: payload}, {Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: 0},
			{Key: "errorMessage", Value: nil}}}}); err != nil {
		t.Fatal(err)
	}
}
