package debezium_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// TestImportUnreadForms: a file that holds a connector in a form that is not read is named, with what to give instead, and nothing else is said of it.
func TestImportUnreadForms(t *testing.T) {
	t.Parallel()
	const class, router = "io.debezium.connector.postgresql.PostgresConnector", "io.debezium.transforms.outbox.EventRouter"
	const variables, lines, answer = "write its variables DEBEZIUM_* into a .env file", "write its options debezium.* into a file application.properties", "give the answer of GET /connectors/NAME/config"
	const json = `{"name": "c", "config": {"connector.class": "` + class + `", "database.hostname": "$(DB_HOST)"}}`
	const resource = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nspec:\n  config:\n    transforms.outbox.type: " + router + "\n"
	for name, c := range map[string][2]string{
		"Makefile":          {"DB_HOST ?= db\nregister:\n\tcurl -d '" + json + "' http://connect:8083/connectors\n", "a Makefile, which tailbox does not read: " + answer},
		"register.bat":      {"@echo off\r\nset DB_HOST=db\r\ncurl.exe -d \"" + strings.NewReplacer(`"`, `\"`, "$(DB_HOST)", "%DB_HOST%").Replace(json) + "\" http://connect:8083/connectors\r\n", "a batch file of Windows, which tailbox does not read: " + answer},
		"deploy.sh":         {"kubectl apply -f - <<EOF\napiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{image: debezium/server, env: [\n  {name: DEBEZIUM_SOURCE_CONNECTOR_CLASS, value: " + class + "}]}]}}}\nEOF\n", "a script that writes options in a here-document, which tailbox does not read: " + variables},
		"register.CMD":      {"curl -d \"" + strings.ReplaceAll(json, `"`, `\"`) + "\" http://connect:8083/connectors\n", "a batch file of Windows"},
		"Jenkinsfile":       {"pipeline {\n  stages {\n    sh '''\n      oc apply -f - <<'EOF'\n" + resource + "EOF\n'''\n  }\n}\n", "a program, which tailbox does not read: write the KafkaConnector into a file of YAML, and give that"},
		"strimzi.md":        {"# The outbox\n\n```yaml\n" + resource + "```\n", "Markdown, which tailbox does not read: write the KafkaConnector"},
		"windows.md":        {"# The outbox\n\n```powershell\n$outbox = @{\n  \"connector.class\" = \"" + class + "\"\n}\nInvoke-RestMethod -Body $outbox\n```\n", "Markdown, which"},
		"commands.md":       {"# The outbox\n\n```sh\ncurl http://connect:8083/connectors\n```\n", "Markdown, which"},
		"setup.md":          {"# Setup\n\n```\nkubectl get pods\n```\n", "Markdown, which"},
		"connect.mk":        {"register: $(DEPS)\n\t@printf '%s' '" + json + "' | curl -d @- http://connect:8083/connectors\n", "a Makefile"},
		"register":          {".PHONY: register\nregister: up\n\t@curl -d '" + json + "' http://connect:8083/connectors\n", "a Makefile"},
		"start.sh":          {"cat > conf/application.properties <<EOF\n# the outbox\ndebezium.source.connector.class=" + class + "\ndebezium.source.database.password=$DB_PW\nEOF\nexec ./run.sh\n", "a script that writes options in a here-document, which tailbox does not read: " + lines},
		"start.bash":        {"cat > .env <<-'EOF'\n\tDEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\n\tEOF\n", "a script that writes options in a here-document, which tailbox does not read: " + variables},
		"run.sh":            {"docker run -d \\\n  -e DEBEZIUM_SINK_TYPE=kafka \\\n  -e DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + " \\\n  debezium/server\n", "a script with docker run, which tailbox does not read: " + variables},
		"java.sh":           {"java -Ddebezium.sink.type=kafka -Ddebezium.source.connector.class=" + class + " -jar server.jar\n", "a form that tailbox does not read: " + lines},
		"jq.sh":             {"jq -n '{name: \"c\", config: {\"connector.class\": \"" + class + "\"}}' | curl -d @- http://connect:8083/connectors\n", "a script with jq"},
		"Dockerfile":        {"FROM debezium/server\nENV DEBEZIUM_SINK_TYPE=kafka\nENV DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\n", "a Dockerfile, which tailbox does not read: " + variables},
		"debezium.service":  {"[Unit]\nDescription=Debezium\n[Service]\nEnvironment=\"DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\"\n", "a unit of systemd, which tailbox does not read: " + variables},
		"task.json":         {`{"containerDefinitions": [{"environment": [{"name": "DEBEZIUM_SOURCE_CONNECTOR_CLASS", "value": "` + class + `"}]}]}`, "a task definition of ECS, which tailbox does not read: " + variables},
		"workflow.yml":      {"on: push\njobs:\n  register:\n    runs-on: ubuntu-latest\n    steps:\n      - run: curl -d '" + json + "' http://connect:8083/connectors\n", "a workflow of GitHub Actions, which tailbox does not read: " + answer},
		"values.yaml":       {"debezium:\n  env:\n    DEBEZIUM_SOURCE_CONNECTOR_CLASS: " + class + "\n", "a form that tailbox does not read: " + variables},
		"kustomize.yaml":    {"kind: Kustomization\nconfigMapGenerator:\n  - name: d\n    literals: [DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "]\n", "a Kustomization, which tailbox does not read: " + variables},
		"cronjob.yaml":      {"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {env: [{name: DEBEZIUM_SOURCE_CONNECTOR_CLASS, value: " + class + "}]}}}\n", "a form that tailbox does not read: " + variables},
		"lines.ts":          {"await write(\"application.properties\", [\n  \"debezium.sink.type=kafka\",\n  \"debezium.source.connector.class=" + class + "\",\n].join(\"\\n\"));\n", "a program, which tailbox does not read: " + lines},
		"stack.py":          {"task.add(environment={\n    \"DEBEZIUM_SOURCE_CONNECTOR_CLASS\": \"" + class + "\",\n    \"DEBEZIUM_SINK_TYPE\": \"kafka\",\n})\n", "a program, which tailbox does not read: " + variables},
		"OutboxTest.java":   {"ConnectorConfiguration c = ConnectorConfiguration.forJdbcContainer(db)\n    .with(\"transforms\", \"outbox\")\n    .with(\"transforms.outbox.type\", \"" + router + "\");\ndebezium.registerConnector(\"c\", c);\n", "a program, which tailbox does not read: " + answer},
		"Constants.java":    {"props.with(\"transforms.outbox.type\", EventRouter.class.getName());\n", "a program"},
		"Engine.java":       {"props.with(EmbeddedEngineConfig.CONNECTOR_CLASS, \"" + class + "\");\n", "a program"},
		"guide.md":          {"# The outbox\n\nIts connector:\n\n```json\n" + json + "\n```\n\nThat is all: read on.\n", "Markdown, which tailbox does not read: " + answer},
		"config.properties": {"# written by\nx.sh: connector.class=" + class + "\n", "a form that tailbox does not read: " + answer},
	} {
		files := []debezium.File{{Name: "conf/" + name, Data: []byte(c[0])}}
		_, err := debezium.Import(files, environment(), nil, bytea)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, name+": form: it ") || !strings.Contains(got, c[1]) || strings.Contains(got, "\n") {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
		if report := debezium.Report(files, environment(), nil, bytea); len(report) != 1 {
			t.Errorf("%s: the report says more than that: %+v", name, report)
		}
		if yaml := imported(t, environment(), name, c[0], "connector.json", text(t, "connector.json"), "worker.properties", text(t, "worker.properties")); !has(yaml, "kind: postgres") {
			t.Errorf("%s beside a connector:\n%s", name, yaml)
		}
	}
}

// TestImportMarkdown: commands in blocks of code are read as a shell reads them, with the variables of the blocks before.
func TestImportMarkdown(t *testing.T) {
	t.Parallel()
	const command = "curl -X POST http://connect:8083/connectors -d "
	connector := strings.Replace(text(t, "connector.json"), `"tasks.max": 1`, `"transforms.outbox.route.topic.regex": "(?<routedByValue>.*)\\b"`, 1)
	want := imported(t, environment(), "connector.json", connector, "worker.properties", text(t, "worker.properties"))
	for name, fences := range map[string][3]string{"backquotes": {"```bash", "```", "```"}, "tildes": {"~~~", "~~~", "~~~"}, "in a list": {"  ```sh", "  ```", "  ```"}, "without an end": {"```", "```", ""}} {
		page := "# It's an outbox\n\n" + fences[0] + "\nHOST=order-db\n" + fences[1] + "\n\nThen (see `a`:\n\n" +
			fences[0] + "\n" + command + "'" + strings.Replace(connector, "order-db", `'"$HOST"'`, 1) + "'\n" + fences[2] + "\n"
		if got := imported(t, environment(), "README.md", page, "worker.properties", text(t, "worker.properties")); withoutTitle([]byte(got)) != withoutTitle([]byte(want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}
