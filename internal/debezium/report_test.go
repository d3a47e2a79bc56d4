package debezium_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// refuses reports whether a report has an option that is refused.
func refuses(report []debezium.Option) bool {
	return slices.ContainsFunc(report, func(o debezium.Option) bool { return o.Fate == debezium.Refused })
}

// TestReport: each option of the files is told once, with what becomes of it and without its value.
func TestReport(t *testing.T) {
	t.Parallel()
	all := served(t, "debezium.source.slot.drop.on.stop=true", "debezium.transforms.outbox.table.field.payload.id=x")
	fates := map[string]debezium.Option{}
	for _, o := range debezium.Report(all, environment("PGPASSWORD", "hunter2", "KAFKA_PASSWORD", "hunter3"), nil, bytea) {
		if _, twice := fates[o.Key]; twice {
			t.Errorf("%s is told twice", o.Key)
		}
		if o.How == "" || strings.Contains(o.How, "hunter") {
			t.Errorf("%+v", o)
		}
		fates[o.Key] = o
	}
	for line := range strings.Lines(string(all[0].Data)) {
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, " ") && fates[key].Fate == "" {
			t.Errorf("%s is not told", key)
		}
	}
	for key, want := range map[string]debezium.Fate{"debezium.source.slot.drop.on.stop": debezium.Refused, "debezium.transforms.outbox.table.field.payload.id": debezium.NoEffect,
		"debezium.source.snapshot.mode": debezium.NoEffect, "debezium.sink.kafka.producer.compression.type": debezium.Kept, "debezium.source.database.hostname": debezium.Kept} {
		if fates[key].Fate != want {
			t.Errorf("%s: %+v, want %s", key, fates[key], want)
		}
	}
}

// TestReportOfWorker: options that a worker and a connector have in common are told for both.
func TestReportOfWorker(t *testing.T) {
	t.Parallel()
	worker := debezium.File{Name: "worker.properties", Data: []byte("bootstrap.servers=k:9092\nkey.converter=io.acme.Avro\nkey.converter.x=1\nname=worker\n")}
	connector := debezium.File{Name: "connector.json", Data: []byte(strings.Replace(text(t, "connector.json"), `"tasks.max"`,
		`"key.converter": "org.apache.kafka.connect.storage.StringConverter", "tasks.max"`, 1))}
	var got []string
	for _, o := range debezium.Report([]debezium.File{worker, connector}, environment(), nil, bytea) {
		if o.Key == "key.converter" || o.Key == "name" || o.Key == "key.converter.x" {
			got = append(got, o.Key+" "+string(o.Fate))
		}
	}
	want := []string{"key.converter no effect", "key.converter.x no effect", "name no effect", "name kept", "key.converter kept"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReportOfWorkerVariables: a variable that names an option of a converter is told. Debezium's image takes such options only from variables with CONNECT_ in front.
func TestReportOfWorkerVariables(t *testing.T) {
	t.Parallel()
	for name, form := range map[string][3]string{
		"a Deployment":          {"kind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - image: acme/worker\n          env:\n", "            - name: %s\n              value: %q\n", ""},
		"a StatefulSet":         {"kind: StatefulSet\nspec:\n  template:\n    spec:\n      containers:\n        - env:\n", "            - {name: %s, value: %q}\n", ""},
		"a compose file":        {"services:\n  worker:\n    environment:\n", "      %s: %q\n", ""},
		"a compose file's list": {"services:\n  worker:\n    environment:\n", "      - %s=%s\n", ""},
	} {
		for _, c := range []struct {
			variables []string // pairs
			fates     map[string]debezium.Fate
		}{
			{[]string{"CONFIG_STORAGE_TOPIC", "c", "KEY_CONVERTER", "org.apache.kafka.connect.json.JsonConverter", "CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE", "false", "KEY_CONVERTER_SCHEMAS_ENABLE", "true",
				"VALUE_CONVERTER_SCHEMA_REGISTRY_URL", "http://registry", "HEADER_CONVERTER", "x", "HEADER_CONVERTER_ENCODING", "x"},
				map[string]debezium.Fate{"key.converter": debezium.Kept, "key.converter.schemas.enable": debezium.Kept, "$KEY_CONVERTER_SCHEMAS_ENABLE": debezium.NoEffect,
					"$VALUE_CONVERTER_SCHEMA_REGISTRY_URL": debezium.NoEffect, "$HEADER_CONVERTER": debezium.NoEffect, "$HEADER_CONVERTER_ENCODING": debezium.NoEffect}},
			{[]string{"BOOTSTRAP_SERVERS", "k:9092", "KEY_CONVERTER_SCHEMAS_ENABLE", "false"}, map[string]debezium.Fate{"bootstrap.servers": debezium.Kept, "$KEY_CONVERTER_SCHEMAS_ENABLE": debezium.NoEffect, "key.converter": debezium.Refused}},
			{[]string{"BOOTSTRAP_SERVERS", "k:9092", "KEY_CONVERTER", "org.apache.kafka.connect.storage.StringConverter", "APICURIO_REGISTRY", "http://registry"},
				map[string]debezium.Fate{"bootstrap.servers": debezium.Kept, "key.converter": debezium.Refused}},
			{[]string{"CONNECT_KEY_CONVERTER", "org.apache.kafka.connect.storage.StringConverter", "CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE", "false", "CONNECT_KEY_CONVERTER_SCHEMA_REGISTRY_URL", "http://registry",
				"CONNECT_KEY_CONVERTER_CONVERTER_ENCODING", "UTF-16"},
				map[string]debezium.Fate{"key.converter": debezium.Kept, "key.converter.schemas.enable": debezium.NoEffect, "key.converter.schema.registry.url": debezium.NoEffect, "key.converter.converter.encoding": debezium.Refused}},
		} {
			data := form[0]
			for pair := range slices.Chunk(c.variables, 2) {
				data += fmt.Sprintf(form[1], pair[0], pair[1])
			}
			fates := map[string]debezium.Option{}
			for _, o := range debezium.Report([]debezium.File{{Name: "worker.yaml", Data: []byte(data)}, {Name: "c.json", Data: []byte(text(t, "connector.json"))}}, environment(), nil, bytea) {
				fates[o.Key] = o
			}
			for key, want := range c.fates {
				if fates[key].Fate != want {
					t.Errorf("%s: %s is %+v, want %s", name, key, fates[key], want)
				}
				if strings.HasPrefix(key, "$") && !strings.Contains(fates[key].How, "CONNECT_"+key[1:]) {
					t.Errorf("%s: %s: %q does not name the variable that counts", name, key, fates[key].How)
				}
			}
		}
	}
}

// TestReportOfSharedKeys: an option that the worker and the connector both have is two options, and what is missing in one of them is told although the other has it.
func TestReportOfSharedKeys(t *testing.T) {
	t.Parallel()
	const json = "org.apache.kafka.connect.json.JsonConverter"
	columns := func(string, string, string) (map[string]string, error) {
		return map[string]string{"payload": `{"type":"bytes","optional":true}`}, nil
	}
	for name, c := range map[string]struct {
		worker  string
		options string
		want    []string
	}{
		"missing in the connector": {"key.converter=" + json + "\nkey.converter.schemas.enable=false\n", `"key.converter": "` + json + `"`,
			[]string{"no effect: the connector names this converter", "refused: is missing, and its default, true"}},
		"both": {"key.converter=" + json + "\nkey.converter.schemas.enable=true\n", `"key.converter": "` + json + `", "key.converter.schemas.enable": "false"`,
			[]string{"no effect: the connector names this converter", "kept: format.key"}},
		"refused in the connector": {"key.converter=" + json + "\nkey.converter.schemas.enable=false\n", `"key.converter": "` + json + `", "key.converter.schemas.enable": "true"`,
			[]string{"no effect: the connector names this converter", "refused: would put a schema"}},
		"the worker's": {"key.converter=" + json + "\nkey.converter.schemas.enable=false\n", `"key.converter.schemas.enable": "true"`,
			[]string{"kept: format.key", "no effect: the connector does not name this converter"}},
		"twice": {"key.converter=" + json + "\nkey.converter.schemas.enable=true\nkey.converter.schemas.enable=false\n", `"tasks.max": 1`,
			[]string{"no effect: it is set again in w:5, and that counts", "kept: format.key"}},
	} {
		files := []debezium.File{{Name: "c", Data: []byte(strings.Replace(text(t, "connector.json"), `"tasks.max": 1`, c.options, 1))},
			{Name: "w", Data: []byte("bootstrap.servers=k:9092\n# a comment\n" + c.worker)}}
		report := debezium.Report(files, environment(), nil, columns)
		var got []string
		for _, o := range report {
			if o.Key == "key.converter.schemas.enable" {
				got = append(got, string(o.Fate)+": "+o.How)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if _, err := debezium.Import(files, environment(), nil, columns); refuses(report) != (err != nil) {
			t.Errorf("%s: the import says %v, and the report %+v", name, err, report)
		}
	}
}

// TestReportOfFilesWithTheSameVariables: the report lists options in one order, also if two files set each of them.
func TestReportOfFilesWithTheSameVariables(t *testing.T) {
	t.Parallel()
	lines := ""
	for _, option := range strings.Fields("SINK_TYPE SOURCE_SLOT_NAME SOURCE_DATABASE_PORT SOURCE_DATABASE_HOSTNAME SOURCE_DATABASE_USER SOURCE_DATABASE_DBNAME SOURCE_TOPIC_PREFIX SOURCE_PLUGIN_NAME") {
		lines += "DEBEZIUM_" + option + "=x\n"
	}
	files := []debezium.File{{Name: ".env", Data: []byte(lines)}, {Name: "b.env", Data: []byte(lines)}}
	want := debezium.Report(files, environment(), nil, nil)
	for range 30 {
		if got := debezium.Report(files, environment(), nil, nil); !slices.Equal(got, want) {
			t.Fatalf("%+v, and then %+v", want, got)
		}
	}
}

// TestReportBeforeTheDatabase: a mode whose effect the database decides is not told as one without effect while something else is refused.
func TestReportBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	const key = "debezium.source.binary.handling.mode"
	for _, o := range debezium.Report(served(t, key+"=hex", "debezium.source.slot.drop.on.stop=true"), environment(), nil, bytea) {
		if o.Key == key && !strings.Contains(o.How, "the database has not been asked yet") {
			t.Errorf("%+v", o)
		}
	}
}

// TestReportOfUpdates: Debezium stops at an update of the outbox if it is told so, and tailbox does not. The report says it.
func TestReportOfUpdates(t *testing.T) {
	t.Parallel()
	const key = "transforms.outbox.table.op.invalid.behavior"
	for _, o := range debezium.Report(connected(t, `"`+key+`": "fatal"`), environment(), nil, bytea) {
		if o.Key == key && !strings.Contains(o.How, "Debezium stops at an update of the outbox; tailbox logs it and goes on") {
			t.Errorf("%+v", o)
		}
	}
}

// TestReportOfRefused: the options of a transformation that is refused, and of its predicate, belong to it.
func TestReportOfRefused(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]string{"com.acme.Own": "would change the messages", "io.debezium.transforms.outbox.EventRouter": "is a second outbox event router"} {
		files := connected(t, `"transforms.own.type": "`+class+`", "transforms.own.predicate": "p", "predicates": "p", "predicates.p.type": "com.acme.P"`)
		files[0].Data = []byte(strings.Replace(string(files[0].Data), `"transforms": "outbox"`, `"transforms": "outbox,own"`, 1))
		for _, o := range debezium.Report(files, environment(), nil, bytea) {
			switch {
			case o.Key == "transforms.own.type" && strings.Contains(o.How, want):
			case o.Key == "transforms.own.predicate" && o.How == "it is of the transformation that is refused":
			case o.Key == "predicates" && o.How == "it is of the transformation that is refused":
			case o.Key == "predicates.p.type" && o.How == "it is of the transformation that is refused":
			case strings.HasPrefix(o.Key, "transforms.own") || strings.HasPrefix(o.Key, "predicates"):
				t.Errorf("%s: %+v", class, o)
			}
		}
	}
}

// TestReportOfKafkaConnector: Strimzi takes the class and the number of tasks from the spec, and the name from the metadata, whatever its config says.
func TestReportOfKafkaConnector(t *testing.T) {
	t.Parallel()
	const class = "class: io.debezium.connector.postgresql.PostgresConnector\n"
	const inside = "connector.class: io.debezium.connector.mysql.MySqlConnector\n"
	for name, c := range map[string]struct{ file, tasks string }{
		"a resource":     {"kind: KafkaConnector\nmetadata: {name: outer}\nspec:\n  " + class + "  tasksMax: 1\n  config:\n    tasks.max: 2\n    name: inner\n    " + inside + yamlOf(t, 4, "connector.class", "tasks.max"), "spec.tasksMax"},
		"its spec alone": {"name: outer\n" + class + "tasksMax: 1\nconfig:\n  tasks.max: 2\n  " + inside + yamlOf(t, 2, "connector.class", "tasks.max"), "tasksMax"},
	} {
		files := []debezium.File{{Name: "c.yaml", Data: []byte(c.file)}, {Name: "w.properties", Data: []byte(text(t, "worker.properties"))}}
		var got []string
		for _, o := range debezium.Report(files, environment(), nil, bytea) {
			if o.Key == "tasks.max" {
				got = append(got, o.How)
			}
		}
		if want := []string{"there is one", "Strimzi takes it from " + c.tasks + ", and ignores it here"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if yaml := imported(t, environment(), "c.yaml", c.file, "w.properties", text(t, "worker.properties")); !has(yaml, "kind: postgres") || !has(yaml, "pipeline: outer") {
			t.Errorf("%s:\n%s", name, yaml)
		}
	}
}

// TestReportWithoutRouter: a transformation is not said to stand in front of a router that is not there.
func TestReportWithoutRouter(t *testing.T) {
	t.Parallel()
	files := connected(t, `"tasks.max": 1`)
	files[0].Data = []byte(strings.Replace(string(files[0].Data), "io.debezium.transforms.outbox.EventRouter", "org.apache.kafka.connect.transforms.RegexRouter", 1))
	for _, o := range debezium.Report(files, environment(), nil, bytea) {
		if o.Key == "transforms.outbox.type" && (o.Fate != debezium.NoEffect || o.How != "there is no outbox event router, whose messages it could change") || o.Key == "transforms" && o.Fate != debezium.Refused {
			t.Errorf("%+v", o)
		}
	}
}

// TestReportOfUnreadType: Debezium's router does not read the option of the type's column, so that a wrong name is no error there.
func TestReportOfUnreadType(t *testing.T) {
	t.Parallel()
	// as in cispiroglu/cdc-with-debezium-dotnet-microservices
	for value, want := range map[string]debezium.Fate{"EVENT_YPE": debezium.NoEffect, "id": debezium.Kept} {
		told, err := fates(t, connected(t, `"transforms.outbox.table.field.event.type": "`+value+`"`), bytea)
		if err != nil || told["transforms.outbox.table.field.event.type"].Fate != want {
			t.Errorf("%s: %+v, %v", value, told["transforms.outbox.table.field.event.type"], err)
		}
	}
}
