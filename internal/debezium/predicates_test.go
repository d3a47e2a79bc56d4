package debezium_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// TestImportPredicates: the router has to be applied to each table that is read, with its predicate and what negates it.
func TestImportPredicates(t *testing.T) {
	t.Parallel()
	const match = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
	predicate := func(pattern, negate string) string {
		return fmt.Sprintf(`"predicates": "p", "predicates.p.type": %q, "predicates.p.pattern": %q, "transforms.outbox.predicate": "p", "transforms.outbox.negate": %q`, match, pattern, negate)
	}
	const tombstones = `"predicates": "p", "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"`
	const front = `"transforms": "drop,outbox", "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter", `
	const both = `, "table.include.list": "inventory.outboxevent,inventory.pulse"`
	for name, c := range map[string]struct{ options, want string }{
		"the outbox":                  {predicate(".*outboxevent", "false"), ""},
		"its whole topic":             {predicate(`dbserver1\.inventory\.outboxevent`, "false"), ""},
		"all but others":              {predicate(".*pulse", "true"), ""},
		"another table":               {predicate(".*pulse", "false"), "to table inventory.outboxevent, whose topic is"},
		"all but the outbox":          {predicate(".*outboxevent", "true"), "to table inventory.outboxevent, whose topic is"},
		"all but another that exists": {predicate(".*pulse", "TRUE") + both, "to table inventory.pulse, whose topic is"},
		"one of two":                  {predicate(".*outboxevent", "false") + both, "to table inventory.pulse, whose topic is"},
		"both":                        {predicate(".*(outboxevent|pulse)", "false") + both, ""},
		"not defined":                 {`"transforms.outbox.predicate": "false"`, `transforms.outbox.predicate "false": is not defined`},
		"not in the list":             {strings.Replace(predicate(".*", "false"), `"predicates": "p"`, `"predicates": "q"`, 1), "is not defined"},
		"another class":               {strings.Replace(predicate(".*", "false"), "TopicNameMatches", "HasHeaderKey", 1), "tailbox evaluates only"},
		"another package":             {strings.Replace(predicate(".*", "false"), match, "com.acme.TopicNameMatches", 1), "tailbox evaluates only " + match},
		"no pattern":                  {strings.Replace(predicate(".*", "false"), "p.pattern", "p.patern", 1), "tailbox evaluates only"},
		"a pattern of Java":           {predicate("(?!x).*", "false"), `predicates.p.pattern "(?!x).*": cannot be read`},
		"an own strategy":             {predicate(".*", "false") + `, "topic.naming.strategy": "com.acme.Names"`, "because of topic.naming.strategy"},
		"a delimiter":                 {predicate("[^_.]+_inventory_outboxevent", "false") + `, "topic.delimiter": "_"`, ""},
		"topics that are renamed": {predicate(".*outboxevent", "false") + `, "transforms": "short,outbox", "transforms.short.type": "org.apache.kafka.connect.transforms.RegexRouter", ` +
			`"transforms.short.regex": ".*", "transforms.short.replacement": "x"`, "no transformation in front of the router"},
		"no predicate":                      {`"transforms.outbox.negate": "true"`, `transforms.outbox.negate "true": Kafka Connect does not start with it`},
		"the connector's own strategy":      {predicate(`dbserver1\.inventory\.outboxevent`, "false") + `, "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy"`, ""},
		"another database's strategy":       {predicate(`dbserver1\.outboxevent`, "false") + `, "topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy"`, "because of topic.naming.strategy"},
		"a pattern that Go reads otherwise": {predicate("[a-z.&&[^x]]+", "false"), "it holds && in brackets, which Java reads in another way than tailbox"},
		"all but tombstones":                {tombstones + `, "transforms.outbox.predicate": "p", "transforms.outbox.negate": "true"`, ""},
		"tombstones that are sent":          {tombstones + `, "transforms.outbox.predicate": "p", "transforms.outbox.negate": "true", "tombstones.on.delete": "true"`, "sends the tombstones of deleted rows as they are: set tombstones.on.delete to false"},
		"tombstones alone":                  {tombstones + `, "transforms.outbox.predicate": "p"`, "tailbox evaluates only"},
		"a Filter of tombstones":            {front + tombstones + `, "transforms.drop.predicate": "p"`, ""},
		"a Filter of all but tombstones":    {front + tombstones + `, "transforms.drop.predicate": "p", "transforms.drop.negate": "true"`, "would change the messages"},
		"a Filter of heartbeats":            {front + strings.ReplaceAll(predicate("__debezium-heartbeat.*", "false"), ".outbox.", ".drop."), ""},
		"a Filter of all but the outbox":    {front + strings.ReplaceAll(predicate(".*outboxevent", "true"), ".outbox.", ".drop."), ""},
		"a Filter of the outbox":            {front + strings.ReplaceAll(predicate(".*outboxevent", "false"), ".outbox.", ".drop."), "would change the messages"},
		"a Filter of everything":            {front + `"predicates": ""`, "would change the messages"},
		"a Filter behind the router":        {strings.Replace(front, "drop,outbox", "outbox,drop", 1) + strings.ReplaceAll(predicate("x", "false"), ".outbox.", ".drop."), "would change the messages"},
		"a Filter of tombstones behind":     {strings.Replace(front, "drop,outbox", "outbox,drop", 1) + tombstones + `, "transforms.drop.predicate": "p"`, ""},
		"an undefined one in front":         {strings.Replace(front, "Filter", "RegexRouter", 1) + `"transforms.drop.predicate": "p"`, `transforms.drop.predicate "p": is not defined`},
		"a Filter of schema changes":        {strings.Replace(front, "org.apache.kafka.connect.transforms.Filter", "io.debezium.transforms.SchemaChangeEventFilter", 1) + `"tasks.max": 1`, ""},
	} {
		files := connected(t, `"tasks.max": 1`)
		files[0].Data = []byte(strings.TrimRight(string(files[0].Data), "} \n") + ",\n" + c.options + "}}") // what comes later counts
		yaml, err := debezium.Import(files, environment(), nil, bytea)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && (!strings.Contains(got, c.want) || strings.Contains(got, "\n")) {
			t.Errorf("%s: %v, want %q\n%s", name, err, c.want, yaml)
		}
	}
}

// TestImportOperatorPredicates: the resource of Debezium's operator defines its predicates by name.
func TestImportOperatorPredicates(t *testing.T) {
	t.Parallel()
	for pattern, ok := range map[string]bool{".*outbox": true, "other": false} {
		_, err := debezium.Import([]debezium.File{{Name: "server.yaml", Data: []byte(`apiVersion: debezium.io/v1alpha1
kind: DebeziumServer
spec:
  sink: {type: http, config: {url: "http://h/x", headers.prefix: "", headers.encode.base64: false}}
  format: {key: {type: simplestring}, value: {type: simplestring}, header: {config: {schemas.enable: false}}}
  source:
    class: io.debezium.connector.postgresql.PostgresConnector
    config: {database.hostname: db, database.user: u, database.password: p, database.dbname: shop, topic.prefix: shop, table.include.list: public.outbox, plugin.name: pgoutput}
  transforms:
    - {type: io.debezium.transforms.outbox.EventRouter, predicate: own}
  predicates:
    own: {type: org.apache.kafka.connect.transforms.predicates.TopicNameMatches, config: {pattern: "` + pattern + `"}}
`)}}, environment(), nil, bytea)
		if (err == nil) != ok {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
