package debezium_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// TestImportTracing: with OpenTelemetry Debezium's router looks for the trace of a message, also if no option says so.
func TestImportTracing(t *testing.T) {
	t.Parallel()
	columns := func(more ...string) debezium.Describe {
		return func(kind, address, table string) (map[string]string, error) {
			all, err := bytea(kind, address, table)
			for _, name := range more {
				all[name] = `{"type":"string","optional":true}`
			}
			return all, err
		}
	}
	unreachable := func(string, string, string) (map[string]string, error) { return nil, errors.New("no route") }
	const agent = "KAFKA_OPTS: -javaagent:/opt/opentelemetry-javaagent.jar"
	for name, c := range map[string]struct {
		variable string
		option   string
		describe debezium.Describe
		key      string
		fate     debezium.Fate
		has      bool
	}{
		"a table with the column":  {"ENABLE_OTEL: 'true'", "", columns("tracingspancontext"), "$ENABLE_OTEL", debezium.Kept, true},
		"an agent":                 {agent, "", columns("tracingspancontext"), "$KAFKA_OPTS", debezium.Kept, true},
		"a table without it":       {"ENABLE_OTEL: 'true'", "", columns(), "$ENABLE_OTEL", debezium.NoEffect, false},
		"a database out of reach":  {"ENABLE_OTEL: 'true'", "", unreachable, "$ENABLE_OTEL", debezium.Refused, false},
		"an option of the router":  {agent, `"transforms.outbox.tracing.span.context.field": "tracingspancontext", `, columns("tracingspancontext"), "$KAFKA_OPTS", debezium.NoEffect, true},
		"off":                      {"ENABLE_OTEL: 'false'", "", columns("tracingspancontext"), "$ENABLE_OTEL", debezium.NoEffect, false},
		"other arguments for Java": {"KAFKA_OPTS: -javaagent:/opt/jmx.jar", "", columns("tracingspancontext"), "$KAFKA_OPTS", debezium.NoEffect, false},
	} {
		worker := "services:\n  connect:\n    image: debezium/connect\n    environment: {CONFIG_STORAGE_TOPIC: c, BOOTSTRAP_SERVERS: 'k:9092', CONNECT_VALUE_CONVERTER_SCHEMAS_ENABLE: 'false', KEY_CONVERTER: org.apache.kafka.connect.storage.StringConverter, " + c.variable + "}\n"
		files := []debezium.File{{Name: "compose.yaml", Data: []byte(worker)}, {Name: "c.json", Data: []byte(strings.Replace(text(t, "connector.json"), `"tasks.max": 1`, c.option+`"tasks.max": 1`, 1))}}
		told, err := fates(t, files, c.describe)
		if told[c.key].Fate != c.fate || (err != nil) != (c.fate == debezium.Refused) {
			t.Errorf("%s: %+v, %v", name, told[c.key], err)
		}
		if yaml, _ := debezium.Import(files, environment(), nil, c.describe); strings.Contains(string(yaml), "tracing.span.context.field: ") != c.has {
			t.Errorf("%s: %s", name, yaml)
		}
	}
}
