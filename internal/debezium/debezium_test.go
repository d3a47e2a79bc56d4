package debezium_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/debezium"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func files(t *testing.T, names ...string) []debezium.File {
	t.Helper()
	var all []debezium.File
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, debezium.File{Name: "conf/" + name, Data: data})
	}
	return all
}

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// What is made is a configuration that tailbox takes.
func TestImport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		golden string
		files  []string
		env    []string
	}{
		{"server.yaml", []string{"server.properties"}, nil},
		{"connector.yaml", []string{"worker.properties", "connector.json"}, nil},
		{"environment.yaml", []string{"server.properties"}, []string{"DEBEZIUM_SOURCE_DATABASE_PASSWORD", "x", "DEBEZIUM_SINK_TYPE", "kafka", "QUARKUS_HTTP_PORT", "9000", "DEBEZIUM_SOURCE_TABLE_INCLUDE_LIST", "a.outboxevent"}},
	} {
		yaml, err := debezium.Import(files(t, c.files...), environment(c.env...), nil, bytea)
		if err != nil {
			t.Fatalf("%s: %v", c.golden, err)
		}
		golden(t, c.golden, yaml)
		read, file, err := config.Read("tailbox.yaml", yaml, environment(append(c.env, "PGPASSWORD", "secret")...))
		if err != nil {
			t.Fatalf("%s: %v", c.golden, err)
		}
		read.Sinks[0].Section.Strings("brokers")
		read.Sinks[0].Section.String("compression", "")
		read.Sinks[0].Section.Bool("metadata_headers", true)
		if sasl, tls := read.Sinks[0].Section.Section("sasl"), read.Sinks[0].Section.Section("tls"); sasl != nil && tls != nil {
			if sasl.String("username", "") != "relay" || sasl.Secret("password") != "x" || sasl.String("mechanism", "") != "scram-sha-512" {
				t.Errorf("%s: sasl is not what the jaas configuration says", c.golden)
			}
			sasl.Done()
			tls.Done()
		}
		read.Sinks[0].Section.Done()
		if err := file.Err(); err != nil {
			t.Errorf("%s: %v", c.golden, err)
		}
	}
}

func TestImportTellsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := debezium.Import(files(t, "wrong.properties"), environment(), nil, nil)
	if err == nil {
		t.Fatal("no error")
	}
	golden(t, "wrong.txt", []byte(err.Error()+"\n"))
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	good := string(files(t, "server.properties")[0].Data)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"", "connector.class: is missing"},
		"no JSON":         {"{x", "cannot be read"},
		"odd JSON":        {`{"name": "x", "config": []}`, "must be an object"},
		"odd value":       {`{"name": {}}`, "must be a text"},
		"SQL Server":      {strings.Replace(good, "postgresql.PostgresConnector", "sqlserver.SqlServerConnector", 1), "keep Debezium for this outbox"},
		"header schemas":  {strings.Replace(good, "debezium.format.header.schemas.enable=false\n", "", 1), "debezium.format.header.schemas.enable: is missing, and its default, true, would put a schema around each header, but the table's columns are not known"},
		"GSSAPI":          {strings.Replace(good, "SCRAM-SHA-512", "GSSAPI", 1), `debezium.sink.kafka.producer.sasl.mechanism "GSSAPI"`},
		"half a login":    {strings.Replace(good, "username=\"relay\"", "username=\"", 1), "must hold username and password once each"},
		"a keystore":      {good + "debezium.sink.kafka.producer.ssl.truststore.location=a.jks\n", "convert it"},
		"a partitioner":   {good + "debezium.sink.kafka.producer.partitioner.class=x.Y\n", "would change what is sent or where"},
		"no outbox":       {strings.Replace(good, "outbox.EventRouter", "Filter", 1), "would change the messages"},
		"no transforms":   {strings.Replace(good, "debezium.transforms=outbox\n", "", 1), "there is no outbox to relay"},
		"unrouted table":  {strings.Replace(good, "inventory.heartbeat\n", "inventory.orders\n", 1), "does not apply the outbox event router to table inventory.orders"},
		"all tables":      {strings.Replace(good, "debezium.source.table.include.list", "debezium.source.schema.include.list", 1), "name the outbox, as in"},
		"an unknown sink": {strings.Replace(good, "sink.type=kafka", "sink.type=redis", 1), "choose kafka, http or nats-jetstream"},
		"HTTP's headers":  {strings.Replace(good, "sink.type=kafka", "sink.type=http", 1), "X-DEBEZIUM-"},
		"no port":         {good + "quarkus.http.port=http\n", "from 1 to 65535"},
		"an sslmode":      {good + "debezium.source.database.sslmode=Sometimes\n", `sslmode "sometimes": is none of the modes that Debezium knows: choose one of disable, allow`},
		"a driver's":      {good + "debezium.source.driver.options=x\n", "is no option that is known to change nothing"},
	} {
		_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(c.text)}}, environment(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "it's") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

// Debezium Server's own defaults put schemas around everything; they are taken from the table.
func TestImportSchemas(t *testing.T) {
	t.Parallel()
	var kept []string
	for line := range strings.Lines(string(files(t, "server.properties")[0].Data)) {
		if !strings.HasPrefix(line, "debezium.format.") && !strings.Contains(line, "expand.json") {
			kept = append(kept, line)
		}
	}
	input := []debezium.File{{Name: "application.properties", Data: []byte(strings.Join(kept, ""))}}
	columns := map[string]string{"id": `{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1}`, "aggregateid": `{"type":"string","optional":false}`,
		"type": `{"type":"string","optional":false}`, "payload": `{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1}`}
	describe := func(kind, address, table string) (map[string]string, error) {
		if !strings.Contains(address, "host=db.example.org") || table != "inventory.outboxevent" {
			t.Errorf("asked for %s at %s", table, address)
		}
		return maps.Clone(columns), nil
	}
	yaml, err := debezium.Import(input, environment(), nil, describe)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schemas.yaml", yaml)
	if _, file, err := config.Read("tailbox.yaml", yaml, environment("PGPASSWORD", "x")); err != nil || strings.Contains(fmt.Sprint(file.Err()), "router") {
		t.Errorf("%v, %v", err, file.Err())
	}
	delete(columns, "payload")
	if _, err := debezium.Import(input, environment(), nil, describe); err == nil || !strings.Contains(err.Error(), "column payload does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestImportHTTP(t *testing.T) {
	t.Parallel()
	text := strings.Replace(string(files(t, "server.properties")[0].Data), "sink.type=kafka", "sink.type=http", 1) +
		"debezium.sink.http.url=http://localhost/x\ndebezium.sink.http.headers.prefix=\ndebezium.sink.http.headers.encode.base64=false\n" +
		"quarkus.http.port=0\ndebezium.sink.http.batch.enabled=true\ndebezium.sink.http.timeout.ms=500\ndebezium.sink.http.retries=3\n"
	yaml, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(text)}}, environment(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: http", `url: "http://localhost/x"`, "format: array", "max_batch: 200", "timeout: 500ms", "metadata_headers: false",
		"admin:\n  listen: \"127.0.0.1:0\"  # quarkus.http.port"} {
		if !strings.Contains(string(yaml), want) {
			t.Errorf("no %q in\n%s", want, yaml)
		}
	}
}

// A port without a number is no port, and is listed as what has no effect.
func TestImportEmptyPort(t *testing.T) {
	t.Parallel()
	text := string(files(t, "server.properties")[0].Data) + "quarkus.http.port=\n"
	yaml, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(text)}}, environment(), nil, nil)
	if err != nil || strings.Contains(string(yaml), "admin:") || !strings.Contains(string(yaml), "#   quarkus.http.port: ") {
		t.Errorf("%v in\n%s", err, yaml)
	}
}

func TestImportNATS(t *testing.T) {
	t.Parallel()
	text := strings.Replace(string(files(t, "server.properties")[0].Data), "sink.type=kafka", "sink.type=nats-jetstream", 1) +
		"debezium.sink.nats-jetstream.url=nats://n1:4222,nats://n2:4222\ndebezium.sink.nats-jetstream.create-stream=true\n" +
		"debezium.sink.nats-jetstream.subjects=outbox.>\ndebezium.sink.nats-jetstream.auth.user=u\ndebezium.sink.nats-jetstream.auth.password=p\n"
	yaml, err := debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(text)}}, environment(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: nats", `servers: ["nats://n1:4222", "nats://n2:4222"]`, `username: "u"`, `password: "p"`, "metadata_headers: false",
		"#   debezium.sink.nats-jetstream.create-stream: ", "#   debezium.sink.nats-jetstream.subjects: "} {
		if !strings.Contains(string(yaml), want) {
			t.Errorf("no %q in\n%s", want, yaml)
		}
	}
	text += "debezium.sink.nats-jetstream.auth.jwt=eyJ\ndebezium.sink.nats-jetstream.auth.tls.keystore=/k.jks\n"
	_, err = debezium.Import([]debezium.File{{Name: "application.properties", Data: []byte(text)}}, environment(), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "creds_file") || !strings.Contains(err.Error(), "PEM") {
		t.Errorf("JWT and key store: %v", err)
	}
}

// Whatever is in a file, the answer is YAML that can be read, or an error that the report has too.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"server.properties", "connector.json", "worker.properties", "wrong.properties"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := []debezium.File{{Name: "f", Data: data}}
		yaml, err := debezium.Import(files, environment(), nil, nil)
		if refuses(debezium.Report(files, environment(), nil, nil)) != (err != nil) {
			t.Errorf("the report does not say what the import says, which is %v", err)
		}
		if err != nil {
			return
		}
		if _, err := config.Parse("f", yaml, environment()); err != nil {
			t.Errorf("%v in\n%s", err, yaml)
		}
	})
}

// bytea describes tables whose payload is a bytea.
func bytea(string, string, string) (map[string]string, error) {
	const text = `{"type":"string","optional":false}`
	return map[string]string{"id": text, "aggregateid": text, "payload": `{"type":"bytes","optional":true}`, "type": text}, nil
}
