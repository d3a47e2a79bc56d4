package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/test/servers"
)

const takenProperties = `
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=%s
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.source.offset.storage.file.filename=data/offsets.dat
debezium.source.offset.flush.interval.ms=0
debezium.source.topic.prefix=tutorial
debezium.transforms=outbox
debezium.transforms.outbox.route.topic.replacement=%s
quarkus.http.port=0
`

// A takenRig is a database whose outbox Debezium reads before tailbox does.
type takenRig struct {
	properties string
	// write commits a transaction of n messages; their numbers go on.
	write func(from, n int)
	// secret stands in the file as a variable.
	secret string
}

// takenMySQL is one of MySQL. The user's password is one that a URL cannot hold as it is.
func takenMySQL(t *testing.T) *takenRig {
	server := servers.MySQL(t, "mysql")
	database := server.NewDatabase(t)
	const password = `p@s/s:w%d?#`
	exec := func(statements ...string) {
		t.Helper()
		if err := server.Exec(t.Context(), database, statements...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE outbox (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload JSON)`,
		"CREATE TABLE other (n INT)", "CREATE USER dbz@'%' IDENTIFIED BY '"+password+"'", "GRANT ALL ON *.* TO dbz@'%'")
	return &takenRig{
		secret: password,
		properties: fmt.Sprintf(`debezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector
debezium.source.database.hostname=127.0.0.1
debezium.source.database.port=%d
debezium.source.database.user=dbz
debezium.source.database.password=${DB_PASSWORD}
debezium.source.database.server.id=184054
debezium.source.database.include.list=%s
debezium.source.table.include.list=%s.outbox
debezium.source.include.schema.changes=false
debezium.source.schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory
debezium.source.schema.history.internal.file.filename=data/history.dat
debezium.source.snapshot.mode=no_data
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.table.fields.additional.placement=type:header:eventType
`, server.Port, database, database),
		write: func(from, n int) {
			t.Helper()
			statements := []string{"BEGIN", "INSERT INTO other VALUES (1)"}
			for i := from; i < from+n; i++ {
				statements = append(statements, fmt.Sprintf(`INSERT INTO outbox VALUES ('%s', 'order', '%d', 'Type%d', '{"n": %d}')`, takenID(i), i%3, i, i))
			}
			exec(append(statements, "COMMIT")...)
		},
	}
}

func takenMongo(t *testing.T) *takenRig {
	server := servers.Mongo(t)
	database := server.NewDatabase(t)
	client := server.Client(t)
	collection := client.Database(database).Collection("outbox")
	if err := client.Database(database).CreateCollection(t.Context(), "outbox"); err != nil {
		t.Fatal(err)
	}
	return &takenRig{
		properties: fmt.Sprintf(`debezium.source.connector.class=io.debezium.connector.mongodb.MongoDbConnector
debezium.source.mongodb.connection.string=%s
debezium.source.collection.include.list=%s.outbox
debezium.source.snapshot.mode=no_data
debezium.transforms.outbox.type=io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter
debezium.transforms.outbox.collection.fields.additional.placement=type:header:eventType
`, server.URL(), database),
		write: func(from, n int) {
			t.Helper()
			session, err := client.StartSession()
			if err != nil {
				t.Fatal(err)
			}
			defer session.EndSession(t.Context())
			_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
				for i := from; i < from+n; i++ {
					if _, err := collection.InsertOne(ctx, bson.D{{Key: "_id", Value: takenID(i)}, {Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: strconv.Itoa(i % 3)},
						{Key: "type", Value: fmt.Sprintf("Type%d", i)}, {Key: "payload", Value: fmt.Sprintf(`{"n": %d}`, i)}}); err != nil {
						return nil, err
					}
				}
				return nil, nil
			})
			if err != nil && !mongo.IsTimeout(err) {
				t.Fatal(err)
			}
		},
	}
}

func takenID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// Debezium reads an outbox of MySQL or MongoDB, and is stopped or killed in the middle of it. tailbox imports its configuration and its offsets, and
// goes on: no message is lost, and each group's come in order.
func TestRunAfterDebeziumElsewhere(t *testing.T) {
	t.Parallel()
	for kind, database := range map[string]func(t *testing.T) *takenRig{"mysql": takenMySQL, "mongodb": takenMongo} {
		for name, end := range map[string]os.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				runAfterDebezium(t, end, database)
			})
		}
	}
}

func runAfterDebezium(t *testing.T, end os.Signal, database func(t *testing.T) *takenRig) {
	broker := servers.Kafka(t)
	topic := strings.ToLower(strings.NewReplacer("/", "-", ",", "", " ", "").Replace(t.Name()))
	if err := broker.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	db := database(t)
	dir := t.TempDir()
	text := fmt.Sprintf(takenProperties, strings.Join(broker.Brokers(), ","), topic) + db.properties
	theirs, ours := filepath.Join(dir, "debezium.properties"), filepath.Join(dir, "application.properties")
	writeFile(t, theirs, strings.ReplaceAll(text, "${DB_PASSWORD}", db.secret))
	writeFile(t, ours, text)

	debezium, folder := startDebezium(t, theirs)
	offsets := filepath.Join(folder, "data", "offsets.dat")
	next := 0
	write := func(n int) {
		db.write(next, n)
		next += n
	}
	records := fetchUntil(t, broker.Brokers(), topic, func(all []string) bool {
		if len(all) == 0 {
			write(1)
		}
		return len(all) > 0
	})
	form := withoutNumbers(records[0]) // of Debezium's
	first := number(t, form, records[0])
	for range 15 {
		write(4)
	}
	fetchUntil(t, broker.Brokers(), topic, func(all []string) bool {
		return len(all) > 0 && number(t, form, all[len(all)-1]) == next-1
	})
	before := stored(t, offsets)
	until(t, "Debezium to keep where it is", func() bool {
		write(3)
		return stored(t, offsets) != before
	})
	confirmed := next
	for range 20 {
		write(5)
	}
	debezium(end)
	write(50)
	r := &rig{t: t, file: filepath.Join(dir, "tailbox.yaml"), env: map[string]string{"DB_PASSWORD": db.secret}}
	var made, said bytes.Buffer
	sh := &cli.Shell{Out: &made, Err: &said, Env: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	if code := run(t.Context(), sh, []string{"import", "debezium", ours, offsets}); code != exitDone || !strings.Contains(made.String(), "take_over: {") {
		t.Fatalf("import: %d: %s\n%s", code, said.String(), made.String())
	}
	writeFile(t, r.file, made.String())
	if out := r.must("init"); !strings.Contains(out, "created the first checkpoint") {
		t.Errorf("init: %s", out)
	}
	r.must("check")
	stop := r.relay()
	write(20)
	seen := map[int]int{}
	fetchUntil(t, broker.Brokers(), topic, func(all []string) bool {
		clear(seen)
		last := [3]int{-1, -1, -1}
		for _, record := range all {
			n := number(t, form, record)
			group := n % 3
			if seen[n]++; seen[n] > 1 {
				continue
			}
			if last[group] >= 0 && n != last[group]+3 || last[group] < 0 && n > first+2 {
				t.Fatalf("group %d: %d comes after %d", group, n, last[group])
			}
			last[group] = n
		}
		return len(seen) == next-first
	})
	repeated := 0
	for n, times := range seen {
		if repeated += times - 1; times > 1 && n < confirmed-100 {
			t.Errorf("message %d came %d times", n, times)
		}
	}
	t.Logf("%d messages, %d repeated", next-first, repeated)
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}

var numbers = regexp.MustCompile(`[0-9]+`)

// withoutNumbers is the form of a record. Debezium writes the JSON of MySQL without spaces, tailbox as MySQL itself does.
func withoutNumbers(record string) string {
	return strings.ReplaceAll(numbers.ReplaceAllString(record, "#"), `\": `, `\":`)
}

// number checks that a record has the form that Debezium gives to messages, and returns its number.
func number(t *testing.T, form, record string) int {
	t.Helper()
	digits := typePattern.FindStringSubmatch(record)
	if digits == nil || withoutNumbers(record) != form {
		t.Fatalf("record %s\nwant the form %s", record, form)
	}
	n, err := strconv.Atoi(digits[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stored is what a file of offsets holds.
func stored(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}
