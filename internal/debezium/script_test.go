package debezium_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// scriptWith is a script that sends the connector with one option of its own, which the shell reads, behind lines of its own.
func scriptWith(t *testing.T, lines, key, value string) string {
	t.Helper()
	const here = "@here@"
	json := strings.NewReplacer(`$`, `\$`, here, value).Replace(connectorWith(t, key, here))
	return lines + "\ncurl -X POST -d @- http://localhost:8083/connectors <<JSON\n" + json + "\nJSON\n"
}

// TestImportScriptVariables: a script's variable is what the script sets it to. Else it stays a reference if it is only copied, and counts with what the
// environment has now if it decides something.
func TestImportScriptVariables(t *testing.T) {
	t.Parallel()
	const tables, host, password, topic = "table.include.list", "database.hostname", "database.password", "transforms.outbox.route.topic.replacement"
	for name, c := range map[string]struct {
		lines, key, value string
		env               []string
		want, not         string
	}{
		"a default":                  {"", host, "${DB_HOST:-postgres}", nil, "host='${DB_HOST:-postgres}'", ""},
		"a default that is set":      {"", host, "${DB_HOST:-postgres}", []string{"DB_HOST", "x"}, "host='${DB_HOST:-postgres}'", ""},
		"a default if unset":         {"", host, "${DB_HOST-postgres}", nil, "host='${DB_HOST:-postgres}'", ""},
		"an empty default":           {"", "database.user", "${DB_USER:-}", nil, "user='${DB_USER:-}'", ""},
		"set to itself":              {"DB_HOST=${DB_HOST:-postgres}", host, "$DB_HOST", nil, "host='${DB_HOST:-postgres}'", ""},
		"twice by default":           {"DB_HOST=\"${DB_HOST:-postgres}\"", host, "${DB_HOST:-other}", nil, "host='${DB_HOST:-postgres}'", ""},
		"set if it is not":           {": \"${DB_HOST:=postgres}\"", host, "$DB_HOST", nil, "host='${DB_HOST:-postgres}'", ""},
		"set to another":             {"HOST=${DB_HOST:-postgres}", host, "$HOST", nil, "host='${DB_HOST:-postgres}'", ""},
		"set to another, no default": {"HOST=$DB_HOST", host, "${HOST:-postgres}", nil, "host='${DB_HOST:-postgres}'", ""},
		"set within a text":          {"HOST=db-${STAGE:-test}.example.org", host, "$HOST", nil, "host='db-${STAGE:-test}.example.org'", ""},
		"set through two":            {"A=db\nB=$A-1", host, "$B", nil, "host=db-1 ", ""},
		"set to a text":              {"DB_HOST=db", host, "${DB_HOST:-postgres}", []string{"DB_HOST", "x"}, "host=db ", ""},
		"set to nothing":             {"DB_HOST=", host, "${DB_HOST:-postgres}", []string{"DB_HOST", "x"}, "host=postgres ", ""},
		"set in a circle":            {"A=$B\nB=$A", host, "$A", nil, "host='${A}'", ""},
		"set and unset":              {"DB_HOST=db\nunset DB_HOST", host, "${DB_HOST:-postgres}", nil, "host='${DB_HOST:-postgres}'", ""},
		"read":                       {"DB_HOST=db\nread -r DB_HOST", host, "${DB_HOST:-postgres}", nil, "host='${DB_HOST:-postgres}'", ""},
		"set to an argument":         {"H=${1:-postgres}", host, "$H", nil, "host='${H:-postgres}'", ""},
		"set to a command":           {"H=$(hostname)", host, "$H", nil, "host='${H}'", ""},
		"a default of a default":     {"", host, "${DB_HOST:-${PG_HOST:-postgres}}", []string{"PG_HOST", "pg"}, "host='${DB_HOST:-pg}'", ""},
		"a default that is not set":  {"", host, "${DB_HOST:-$PG_HOST}", nil, "host='${DB_HOST}'", ""},
		"a default with a brace":     {"", host, `${DB_HOST:-a\}b}`, nil, "host=a}b ", ""},
		"one that has to be set":     {"", host, "${DB_HOST:?set it}", nil, "host='${DB_HOST}'", ""},
		"a topic":                    {"", topic, `${STAGE:-test}.\${routedByValue}`, nil, `route.topic.replacement: "${STAGE:-test}.${routedByValue}"`, ""},
		"tables by default":          {"", tables, "${TABLES:-inventory.b}", nil, `- name: "inventory.b"`, ""},
		"tables that are set":        {"", tables, "${TABLES:-inventory.b}", []string{"TABLES", "inventory.d"}, `- name: "inventory.d"`, ""},
		"tables set to nothing":      {"", tables, "${TABLES:-inventory.b}", []string{"TABLES", ""}, `- name: "inventory.b"`, ""},
		"tables set to themselves":   {"TABLES=${TABLES:-inventory.b}", tables, "$TABLES", []string{"TABLES", "inventory.d"}, `- name: "inventory.d"`, ""},
		"tables in small letters":    {"", tables, "${tables:-inventory.b}", []string{"tables", "inventory.d"}, `- name: "inventory.d"`, ""},
		"a secret's default":         {"", password, "${DB_PASSWORD:-x}", nil, "password='${DB_PASSWORD}'", "x'"},
		"a secret, followed":         {`db_password="${DB_PASSWORD:-x}"`, password, "${db_password}", nil, "password='${DB_PASSWORD}'", "db_password"},
		"a secret of two":            {"pwd_a=$DB_PASSWORD\npwd_b=${pwd_a:-x}", password, "$pwd_b", nil, "password='${DB_PASSWORD}'", ""},
		"a secret in a circle":       {"A_PASS=${B_PASS:-$A_PASS}\nB_PASS=${A_PASS:-$B_PASS}", password, "$A_PASS", nil, "_PASS}'", ""},
		"a secret in small letters":  {"", password, "$db_password", nil, "password='${DATABASE_PASSWORD}'", ""},
		"a secret's name":            {"", password, "$db_password", nil, "# Set the environment variable DATABASE_PASSWORD to the value of the script's db_password.", ""},
		"a secret that is a text":    {"db_password=hidden", password, "$db_password", nil, "password='${DATABASE_PASSWORD}'", "hidden"},
		"a secret that it sets":      {"DB_PASSWORD=hidden", password, "$DB_PASSWORD", nil, "# Set the environment variable DB_PASSWORD to what the script sends for it.", "hidden"},
		"a secret that may be set":   {"", password, "${DB_PASSWORD:-hidden}", nil, "# Set the environment variable DB_PASSWORD to what the script sends for it.", "hidden"},
		"a secret that it gets":      {"", password, "${DB_PASSWORD:?}", nil, "password='${DB_PASSWORD}'", "Set the environment variable"},
		"a secret for a default":     {"", host, "${DB_HOST:-$SECRET}", []string{"SECRET", "hidden"}, "host='${DB_HOST}'", "hidden"},
		"a default of small letters": {"", host, "${host:-postgres}", nil, "DATABASE_HOSTNAME to the value of the script's host, or postgres if that is not set.", ""},
	} {
		yaml := imported(t, environment(c.env...), "worker.properties", text(t, "worker.properties"), "register.sh", scriptWith(t, c.lines, c.key, c.value))
		if !strings.Contains(yaml, c.want) || c.not != "" && strings.Contains(yaml, c.not) {
			t.Errorf("%s: no %s, or there is %q, in\n%s", name, c.want, c.not, yaml)
		}
	}
}

// TestImportScriptNumbers: a variable can stand for a value of JSON without quotes, and a connector can stand in a variable.
func TestImportScriptNumbers(t *testing.T) {
	t.Parallel()
	plain := scriptWith(t, "", "database.port", "${PORT:-5432}")
	for name, script := range map[string]string{
		"quotes":    plain,
		"a number":  strings.Replace(plain, `"${PORT:-5432}"`, "${PORT:-5432}", 1),
		"a comment": strings.Replace(plain, `"${PORT:-5432}"`, "/* \" */ ${PORT:-5432} // \"\n", 1),
		"a variable": "BODY=\"" + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "5432", "${PORT:-5432}").Replace(text(t, "connector.json")) +
			"\"\ncurl -d \"$BODY\" http://localhost:8083/connectors\n",
	} {
		if yaml := imported(t, environment(), "worker.properties", text(t, "worker.properties"), "register.sh", script); !strings.Contains(yaml, "port='${PORT:-5432}'") {
			t.Errorf("%s: not its port in\n%s", name, yaml)
		}
	}
}

// TestImportScriptBounds: variables that name each other twice do not take all time.
func TestImportScriptBounds(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for c := 'A'; c < 'Z'; c++ {
		for _, sign := range []string{"", "X"} {
			next := "$" + string(c+1) + sign
			lines.WriteString(string(c) + sign + "=" + strings.Repeat(next, 10) + "${Q:-" + next + "}\n")
		}
	}
	_, err := debezium.Import([]debezium.File{{Name: "register.sh", Data: []byte(scriptWith(t, lines.String(), "database.hostname", "$A$AX"))}}, environment(), nil, bytea)
	if err == nil { // the worker is not there
		t.Error("no error")
	}
}

// TestImportOperator: Debezium's operator writes values into application.properties as they are, whose reader takes one level of backslashes.
func TestImportOperator(t *testing.T) {
	t.Parallel()
	const resource = `kind: DebeziumServer
metadata: {name: shop}
spec:
  sink: {type: kafka, config: {producer.bootstrap.servers: 'k:9092'}}
  format: {key: {type: simplestring}, value: {type: simplestring}, header: {config: {schemas.enable: false}}}
  source:
    class: io.debezium.connector.postgresql.PostgresConnector
    config: {database.hostname: db, database.user: u, database.password: PASSWORD, database.dbname: shop, topic.prefix: shop, table.include.list: TABLES, plugin.name: pgoutput}
  transforms:
    - type: io.debezium.transforms.outbox.EventRouter
      config: {route.topic.replacement: TOPIC, route.topic.regex: REGEX}
`
	for name, c := range map[string]struct{ what, value, want string }{
		"a placeholder behind two": {"TOPIC", `'events.\\${routedByValue}'`, `route.topic.replacement: "events.${routedByValue}"`},
		"a placeholder behind $":   {"TOPIC", `'events.$${routedByValue}'`, `route.topic.replacement: "events.${routedByValue}"`},
		"a placeholder behind one": {"TOPIC", `'events.\${routedByValue}'`, "write $${routedByValue}"},
		"a regular expression":     {"REGEX", `'(.*)\\.(.*)'`, `route.topic.regex: "(.*)\\.(.*)"`},
		"half of one":              {"REGEX", `'(.*)\.(.*)'`, `route.topic.regex: "(.*).(.*)"`},
		"a table":                  {"TABLES", `'public\\.outbox'`, `- name: "public.outbox"`},
		"a password":               {"PASSWORD", `'a\\b'`, `password='a\\\\b'`},
		"a line that goes on":      {"TOPIC", "\"ev\\\\\\n  ents\"", `route.topic.replacement: "events"`},
		"a line of its own":        {"TOPIC", `"events\ndebezium.source.slot.name=own"`, `slot: "own"`},
	} {
		values := map[string]string{"PASSWORD": "p", "TABLES": "public.outbox", "TOPIC": "orders", "REGEX": "'(?<routedByValue>.*)'", c.what: c.value}
		file := strings.NewReplacer("PASSWORD", values["PASSWORD"], "TABLES", values["TABLES"], "TOPIC", values["TOPIC"], "REGEX", values["REGEX"]).Replace(resource)
		yaml, err := debezium.Import([]debezium.File{{Name: "server.yaml", Data: []byte(file)}}, environment(), nil, bytea)
		if err != nil {
			yaml = []byte(err.Error())
		}
		if !strings.Contains(string(yaml), c.want) {
			t.Errorf("%s: no %s in\n%s", name, c.want, yaml)
		}
	}
}
