package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	kafka "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
)

const outboxProperties = `
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=%s
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage.file.filename=data/offsets.dat
debezium.source.offset.flush.interval.ms=0
debezium.source.database.hostname=%s
debezium.source.database.port=%s
debezium.source.database.user=%s
debezium.source.database.password=secret
debezium.source.database.dbname=%s
debezium.source.topic.prefix=tutorial
debezium.source.table.include.list=inventory.outboxevent
debezium.source.plugin.name=pgoutput
debezium.source.slot.name=%s
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.topic.replacement=%s.$${routedByValue}.events
debezium.transforms.outbox.table.fields.additional.placement=type:header:eventType
quarkus.log.console.json=false
quarkus.http.port=0
`

// plainFormats are those of consumers that want no schemas.
const plainFormats = `debezium.format.key=simplestring
debezium.format.value=simplestring
debezium.format.header.schemas.enable=false
`

// debeziumRig is a database with an outbox, and the properties that Debezium runs with. The slot is dropped at the end.
func debeziumRig(t *testing.T, brokers string) (r *rig, topic string) {
	t.Helper()
	r, slot := debeziumProperties(t, brokers, "")
	r.sql("CREATE SCHEMA inventory")
	r.sql(`CREATE TABLE inventory.outboxevent (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
		aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)`)
	r.sql("CREATE TABLE inventory.other (n int)")
	t.Cleanup(func() {
		if _, err := r.conn.Exec(context.Background(), "SELECT pg_drop_replication_slot($1)", slot); err != nil {
			t.Error(err)
		}
	})
	return r, slot + ".order.events"
}

// debeziumProperties is a database without an outbox, and properties that name it, with the given port or its own.
func debeziumProperties(t *testing.T, brokers, port string) (r *rig, slot string) {
	t.Helper()
	r = newRig(t, rigConfig)
	u, err := url.Parse(r.env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	if port == "" {
		port = u.Port()
	}
	slot = r.env["SLOT"]
	r.file = filepath.Join(t.TempDir(), "application.properties")
	writeFile(t, r.file, fmt.Sprintf(outboxProperties, brokers, u.Hostname(), port, u.User.Username(), slot, slot, slot))
	return r, slot
}

// events inserts messages of one transaction; their numbers go on.
func (r *rig) events(from, n int) {
	r.t.Helper()
	r.sql(`INSERT INTO inventory.outboxevent (aggregatetype, aggregateid, type, payload)
		SELECT 'order', i % 3, 'Type' || i, jsonb_build_object('n', i, 'tags', '[]'::jsonb) FROM generate_series($1::int, $2::int) i`, from, from+n-1)
}

// debezium runs a command line with Debezium's configuration.
func (r *rig) debezium(ctx context.Context, args ...string) result {
	var out, err bytes.Buffer
	sh := &cli.Shell{In: strings.NewReader(""), Out: &out, Err: &err, Now: make(chan struct{}),
		Env: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	code := run(ctx, sh, append(args, "--debezium", r.file))
	return result{code, out.String(), err.String()}
}

// fetch reads a topic's only partition until it has n records.
func fetch(t *testing.T, brokers []string, topic string, n int) []string {
	return fetchUntil(t, brokers, topic, func(records []string) bool { return len(records) >= n })
}

// fetchUntil reads a topic's only partition until that is enough.
func fetchUntil(t *testing.T, brokers []string, topic string, enough func(records []string) bool) []string {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 10 * time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var records []string
	for !enough(records) {
		answer, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Offset: int64(len(records)), MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 200 * time.Millisecond})
		if err == nil {
			err = answer.Error
		}
		if ctx.Err() != nil {
			t.Fatalf("no more than %d records: %v", len(records), err)
		}
		if err != nil {
			continue
		}
		for {
			record, err := answer.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if record.Offset < int64(len(records)) {
				continue
			}
			records = append(records, describe(t, record))
		}
	}
	return records
}

// describe is a record without its id and what Debezium says of itself.
func describe(t *testing.T, record *kafka.Record) string {
	t.Helper()
	key, err := kafka.ReadAll(record.Key)
	if err != nil {
		t.Fatal(err)
	}
	value, err := kafka.ReadAll(record.Value)
	if err != nil {
		t.Fatal(err)
	}
	text := string(key) + " " + string(value)
	for _, h := range record.Headers {
		if strings.HasPrefix(h.Key, "__debezium.context.") {
			continue
		}
		if h.Key == "id" {
			text += " id=" + uuidPattern.ReplaceAllString(string(h.Value), `,"payload":"…"}`)
			continue
		}
		text += " " + h.Key + "=" + string(h.Value)
	}
	return text
}

var uuidPattern = regexp.MustCompile(`,"payload":"[0-9a-f-]{36}"}$`)

func TestImportDebeziumCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "application.properties")
	writeFile(t, file, fmt.Sprintf(outboxProperties+plainFormats, "localhost:9092", "localhost", "5432", "postgres", "shop", "debezium", "x"))
	got := tailbox(t.Context(), "", "import", "debezium", file)
	if got.code != exitDone || !strings.Contains(got.out, `route.topic.replacement: "x.${routedByValue}.events"  # debezium.transforms.outbox.route.topic.replacement`) {
		t.Errorf("%+v", got)
	}
	made := write(t, "tailbox.yaml", got.out)
	if got := tailbox(t.Context(), "", "check", "--offline", "-c", made); got.code != exitDone {
		t.Errorf("check of what was imported: %+v", got)
	}
	// What check would refuse, and a database that cannot be asked, are told with the option, by the report as well.
	for lines, want := range map[string]string{
		plainFormats + "debezium.source.slot.name=No-Slot\n": `debezium.source.slot.name "No-Slot": becomes source.slot, which tailbox refuses: must be 1 to 63 small letters`,
		plainFormats + "debezium.sink.kafka.producer.bootstrap.servers=${UNSET}\ndebezium.source.database.sslmode=require\ndebezium.source.database.sslrootcert=/none/ca.pem\n": "",
		"debezium.source.database.user=${UNSET_USER}\ndebezium.source.database.password=${UNSET_PASSWORD}\n":                                                                    "would put a schema around each key, but the import cannot ask the database, because these environment variables are not set: UNSET_USER, UNSET_PASSWORD: set",
		"debezium.source.database.port=1\n": "debezium.format.key.schemas.enable: is missing, and its default, true, would put a schema around each key, but connect to describe table",
	} {
		writeFile(t, file, fmt.Sprintf(outboxProperties, "localhost:9092", "localhost", "5432", "postgres", "shop", "debezium", "x")+lines)
		for _, command := range [][]string{{"import", "debezium", file}, {"import", "debezium", "--report", file}} {
			got := tailbox(t.Context(), "", command...)
			if want == "" && got.code != exitDone || want != "" && (got.code != exitUsage || len(command) == 3 && !strings.Contains(got.err, want)) {
				t.Errorf("%v: %+v, want %q", command, got, want)
			}
		}
	}
	writeFile(t, file, "debezium.sink.type=redis\n")
	if got := tailbox(t.Context(), "", "check", "--offline", "--debezium", file); got.code != exitUsage || !strings.Contains(got.err, "choose kafka, http or nats-jetstream") {
		t.Errorf("%+v", got)
	}
	if got := tailbox(t.Context(), "", "run", "--debezium", filepath.Join(t.TempDir(), "none")); got.code != exitUsage || !strings.Contains(got.err, "no such file") {
		t.Errorf("%+v", got)
	}
}

// Whatever a password holds reaches the server, whether it stands in Debezium's file or in the environment.
func TestImportDebeziumPasswords(t *testing.T) {
	t.Parallel()
	inFile := strings.NewReplacer(`\`, `\\`, "$", "$$")
	properties := fmt.Sprintf(strings.Replace(outboxProperties, "password=secret", "password=%%s", 1)+plainFormats, "localhost:9092", "localhost", "5432", "postgres", "shop", "debezium", "x")
	for _, password := range []string{"plain", "it's", `a\b`, `\`, `'`, `\'`, `'\'`, `\\''`, "p@ss:w/rd?#%41", "two words", "tab\there", "$HOME", "a$b", "1$", `"both'`, "host=x", "{", "é'ü",
		" leading", "= 'x'"} {
		for name, c := range map[string]struct {
			value string
			env   map[string]string
		}{
			"file":              {inFile.Replace(password), nil},
			"variable":          {"${DB_SECRET}", map[string]string{"DB_SECRET": password}},
			"variable, default": {"${DB_SECRET:x}", map[string]string{"DB_SECRET": password}},
			"as a default":      {"${DB_SECRET:" + inFile.Replace(password) + "}", nil},
			"its own variable":  {"other", map[string]string{"DEBEZIUM_SOURCE_DATABASE_PASSWORD": password}},
			"a property's":      {"${db.secret}", map[string]string{"DB_SECRET": password}},
		} {
			if strings.TrimSpace(password) != password && name == "file" || strings.ContainsAny(password, "{}:$") && name == "as a default" {
				continue // these cannot be written so in Debezium's file
			}
			file := write(t, "application.properties", fmt.Sprintf(properties, c.value))
			sh := &cli.Shell{Env: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
			var named string
			flags := flag.NewFlagSet("run", flag.ContinueOnError)
			pipeline.ConfigFlag(flags, &named)
			if err := flags.Parse([]string{"--debezium", file}); err != nil {
				t.Fatal(err)
			}
			read, err := pipeline.Load(t.Context(), sh, named)
			if err != nil {
				t.Errorf("%q, %s: %v", password, name, err)
				continue
			}
			if got, err := pgx.ParseConfig(read.Config.Source.URL); err != nil || got.Password != password || got.Database != "shop" {
				t.Errorf("%q, %s: the address is %s: %v", password, name, read.Config.Source.URL, err)
			}
		}
	}
}
