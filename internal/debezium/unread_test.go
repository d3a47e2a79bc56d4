package debezium_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// TestImportUnreadForms: a file that holds a connector in a form that is not read is named, with what to give instead, and nothing else is said of it.
func TestImportUnreadForms(t *testing.T) {
	t.Parallel()
	const class, router = "io.debezium.connector.postgresql.PostgresConnector", "io.debezium.transforms.outbox.EventRouter"
	const variables, lines, answer = "write its variables DEBEZIUM_* into a .env file", "write its options debezium.* into a file application.properties", "give the answer of GET /connectors/NAME/config"
	const command = "YAML with a shell command, which tailbox does not read: write the command into a file .sh, with one $ for each $$ of a compose file, and give that"
	const json = `{"name": "c", "config": {"connector.class": "` + class + `", "database.hostname": "$(DB_HOST)"}}`
	const resource = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nspec:\n  config:\n    transforms.outbox.type: " + router + "\n"
	for name, c := range map[string][2]string{
		"Makefile":         {"DB_HOST ?= db\nregister:\n\tcurl -d '" + json + "' http://connect:8083/connectors\n", "a Makefile, which tailbox does not read: " + answer},
		"register.bat":     {"@echo off\r\nset DB_HOST=db\r\ncurl.exe -d \"" + strings.NewReplacer(`"`, `\"`, "$(DB_HOST)", "%DB_HOST%").Replace(json) + "\" http://connect:8083/connectors\r\n", "a batch file of Windows, which tailbox does not read: " + answer},
		"deploy.sh":        {"kubectl apply -f - <<EOF\napiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{image: debezium/server, env: [\n  {name: DEBEZIUM_SOURCE_CONNECTOR_CLASS, value: " + class + "}]}]}}}\nEOF\n", "a script that writes options in a here-document, which tailbox does not read: " + variables},
		"register.CMD":     {"curl -d \"" + strings.ReplaceAll(json, `"`, `\"`) + "\" http://connect:8083/connectors\n", "a batch file of Windows"},
		"Jenkinsfile":      {"pipeline {\n  stages {\n    sh '''\n      oc apply -f - <<'EOF'\n" + resource + "EOF\n'''\n  }\n}\n", "a program, which tailbox does not read: write the KafkaConnector into a file of YAML, and give that"},
		"strimzi.md":       {"# The outbox\n\n```yaml\n" + resource + "```\n", "Markdown without a shell command that sends a connector, which tailbox does not read: write the KafkaConnector"},
		"windows.md":       {"# The outbox\n\n```powershell\n$outbox = @{\n  \"connector.class\" = \"" + class + "\"\n}\nInvoke-RestMethod -Body $outbox\n```\n", "Markdown without a shell command that sends a connector, which"},
		"commands.md":      {"# The outbox\n\n```sh\ncurl http://connect:8083/connectors\n```\n", "Markdown without a shell command that sends a connector, which"},
		"setup.md":         {"# Setup\n\n```\nkubectl get pods\n```\n", "Markdown without a shell command that sends a connector, which"},
		"connect.mk":       {"register: $(DEPS)\n\t@printf '%s' '" + json + "' | curl -d @- http://connect:8083/connectors\n", "a Makefile"},
		"register":         {".PHONY: register\nregister: up\n\t@curl -d '" + json + "' http://connect:8083/connectors\n", "a Makefile"},
		"start.sh":         {"cat > conf/application.properties <<EOF\n# the outbox\ndebezium.source.connector.class=" + class + "\ndebezium.source.database.password=$DB_PW\nEOF\nexec ./run.sh\n", "a script that writes options in a here-document, which tailbox does not read: " + lines},
		"start.bash":       {"cat > .env <<-'EOF'\n\tDEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\n\tEOF\n", "a script that writes options in a here-document, which tailbox does not read: " + variables},
		"run.sh":           {"docker run -d \\\n  -e DEBEZIUM_SINK_TYPE=kafka \\\n  -e DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + " \\\n  debezium/server\n", "a script with docker run, which tailbox does not read: " + variables},
		"java.sh":          {"java -Ddebezium.sink.type=kafka -Ddebezium.source.connector.class=" + class + " -jar server.jar\n", "a form that tailbox does not read: " + lines},
		"jq.sh":            {"jq -n '{name: \"c\", config: {\"connector.class\": \"" + class + "\"}}' | curl -d @- http://connect:8083/connectors\n", "a script with jq"},
		"Dockerfile":       {"FROM debezium/server\nENV DEBEZIUM_SINK_TYPE=kafka\nENV DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\n", "a Dockerfile, which tailbox does not read: " + variables},
		"debezium.service": {"[Unit]\nDescription=Debezium\n[Service]\nEnvironment=\"DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "\"\n", "a unit of systemd, which tailbox does not read: " + variables},
		"task.json":        {`{"containerDefinitions": [{"environment": [{"name": "DEBEZIUM_SOURCE_CONNECTOR_CLASS", "value": "` + class + `"}]}]}`, "a task definition of ECS, which tailbox does not read: " + variables},
		"workflow.yml":     {"on: push\njobs:\n  register:\n    runs-on: ubuntu-latest\n    steps:\n      - run: curl -d '" + json + "' http://connect:8083/connectors\n", "a workflow of GitHub Actions, which tailbox does not read: " + answer},
		"values.yaml":      {"debezium:\n  env:\n    DEBEZIUM_SOURCE_CONNECTOR_CLASS: " + class + "\n", "the values of a Helm chart, which tailbox does not read: give what helm template prints"},
		"kustomize.yaml":   {"kind: Kustomization\nconfigMapGenerator:\n  - name: d\n    literals: [DEBEZIUM_SOURCE_CONNECTOR_CLASS=" + class + "]\n", "a Kustomization, which tailbox does not read: " + variables},
		"cronjob.yaml":     {"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {env: [{name: DEBEZIUM_SOURCE_CONNECTOR_CLASS, value: " + class + "}]}}}\n", "a form that tailbox does not read: " + variables},
		"lines.ts":         {"await write(\"application.properties\", [\n  \"debezium.sink.type=kafka\",\n  \"debezium.source.connector.class=" + class + "\",\n].join(\"\\n\"));\n", "a program, which tailbox does not read: " + lines},
		"stack.py":         {"task.add(environment={\n    \"DEBEZIUM_SOURCE_CONNECTOR_CLASS\": \"" + class + "\",\n    \"DEBEZIUM_SINK_TYPE\": \"kafka\",\n})\n", "a program, which tailbox does not read: " + variables},
		"OutboxTest.java":  {"ConnectorConfiguration c = ConnectorConfiguration.forJdbcContainer(db)\n    .with(\"transforms\", \"outbox\")\n    .with(\"transforms.outbox.type\", \"" + router + "\");\ndebezium.registerConnector(\"c\", c);\n", "a program, which tailbox does not read: " + answer},
		"Constants.java":   {"props.with(\"transforms.outbox.type\", EventRouter.class.getName());\n", "a program"},
		"Engine.java":      {"props.with(EmbeddedEngineConfig.CONNECTOR_CLASS, \"" + class + "\");\n", "a program"},
		"guide.md":         {"# The outbox\n\nIts connector:\n\n```json\n" + json + "\n```\n\nThat is all: read on.\n", "Markdown without a shell command that sends a connector, which tailbox does not read: " + answer},
		// as in code4-fun/Microservices_Kafka_Debezium_Node.js
		"job.yaml":          {"apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{command: [sh, -c], args: [\"\n  curl -f --data '" + strings.ReplaceAll(json, `"`, `\"`) + "' http://connect:8083/connectors\"]}]}}}\n", command},
		"compose.yml":       {"services:\n  init:\n    command:\n      - |\n        curl -d '" + json + "' http://connect:8083/connectors\n", command},
		"Taskfile.yml":      {"tasks:\n  register:\n    cmds:\n      - |\n        curl -d '" + json + "' http://connect:8083/connectors\n", command},
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

// TestImportPagesAndPrograms: what sends something else than a connector is named so, whatever Markdown and scripts hold beside that.
func TestImportPagesAndPrograms(t *testing.T) {
	t.Parallel()
	const order = "curl -X POST http://localhost:8080/orders -d '{\"name\": \"a\", \"members\": [1]}'\n"
	const server = "```properties\ndebezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector\n```\n"
	for name, c := range map[string][2]string{
		// as in Thieus/demo-pattern-outbox-with-dbz
		"README.md": {"# Teams\n\n```sh\ncurl http://localhost:8083/connectors/outbox/status\n" + order + "```\n", "it is Markdown without a shell command that sends a connector"},
		"order.sh":  {"#!/bin/sh\n" + order, "it is a script that sends no connector"},
		// as in fangqiank/Stream-Postgres-WAL-Changes-Into-.NET-with-Npgsql
		"settings.md": {"```json\n{ \"config\": 1 }\n```\n\n```sh\ncurl http://connect:8083/connectors\n```\n\n```json\n{ \"b\": 1 }\n```\n", "it is Markdown without a shell command that sends a connector"},
		"server.md":   {server + "\n```\nGET /connectors\n\nPUT /connectors/a/pause\n```\n", "it is Markdown without a shell command that sends a connector, which tailbox does not read: write its options debezium.*"},
		// as in excellalabs/debezium
		"create.md":   {"```sh\ncurl -X POST http://connect:8083/connectors/ \\\n  -d @config.json\n```\n\n```json\n{ \"schema\": { \"type\": \"struct\" } }\n```\n", "it sends config.json: give that file"},
		"example.md":  {"```json\n{\"name\": \"o\", \"config\": {\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"}}\n```\n\n```sh\ncurl -d @outbox.json http://c:8083/connectors\n```\n", "it sends outbox.json: give that file"},
		"fed.md":      {"```json\n{\"name\": \"o\", \"config\": {\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"}}\n```\n\n```sh\nhttp POST http://c:8083/connectors < outbox.json\ncurl http://c:8083/connectors/o/status\n```\n", "it sends outbox.json: give that file"},
		"other.sh":    {"cat > a.json <<'E'\n{\"name\": \"o\", \"config\": {\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"}}\nE\ncurl -d @b.json http://c:8083/connectors\n", "it sends b.json: give that file"},
		"orders.md":   {"```sh\ncurl http://shop/orders -d @order.json\n```\n\n```json\n{ \"b\": 1 }\n```\n", "it is Markdown without a shell command that sends a connector"},
		"operator.md": {"```yaml\nkind: DebeziumServer\nspec: {transforms: [{type: io.debezium.transforms.outbox.EventRouter}]}\n```\n", "it is Markdown without a shell command that sends a connector, which tailbox does not read: write the DebeziumServer"},
		// as in romadanskiy/MicroDotNet
		"Dockerfile": {"FROM debezium/connect:1.9\nCOPY ./connector.sh .\nCMD  [\"./connector.sh\"]\n", "it is a Dockerfile, which tailbox does not read: give the answer of GET"},
		// as in GlueOps/service-helm-chart-apache-kafka-connect-connector-source-debezium-mysql
		"helm/values.yaml": {"job_name: nil\nconfig:\n  database: {hostname: nil}\n  table: {include: {list: nil}}\n", "it is a file with the values of a Helm chart, which tailbox does not read: give what helm template prints"},
		// as in Sandeepgaian/msk-connect-terraform
		"c.json.tpl":        {"{\"connectorConfiguration\": {\"connector.class\": \"${class}\"}, \"subnets\": ${subnets}}\n", "it is a template ("},
		"Register.cs":       {"$body = @\"\n\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"\n\"; // in place of Invoke-RestMethod\n", "it is a program, which tailbox does not read"},
		"connector.toml":    {"[connector]\n\"connector.class\" = \"io.debezium.connector.postgresql.PostgresConnector\"\n", "it is TOML"},
		"connector.jsonnet": {"{\n  'connector.class': 'io.debezium.connector.postgresql.PostgresConnector',\n}\n", "it is Jsonnet"},
		"connector.nix":     {"{ config = {\n  \"connector.class\" = \"io.debezium.connector.postgresql.PostgresConnector\";\n}; }\n", "it is Nix"},
		"main.tf":           {"locals {\n  name = \"o\"\n}\nmodule \"connector\" {\n  source = \"./m\"\n}\n", "it is a resource of Terraform"},
		"saga.md":           {"# Start\n\n```sh\nhttp PUT http://localhost:8083/connectors/o/config < outbox.json\n```\n\n```json\n{ \"b\": 1 }\n```\n", "it sends outbox.json: give that file"},
		"tasks/main.yml":    {"- name: send it\n  ansible.builtin.shell:\n    cmd: curl -X PUT http://c:8083/connectors/o/config -d @/tmp/outbox.json\n  register: sent\n", "it sends /tmp/outbox.json: give that file"},
		"uri.yml":           {"- name: send it\n  ansible.builtin.uri:\n    url: http://c:8083/connectors\n    body: {config: {connector.class: io.debezium.connector.postgresql.PostgresConnector}}\n", "it is a list of tasks of Ansible, which tailbox does not read"},
		"short.yml":         {"- name: send it\n  uri:\n    url: http://c:8083/connectors/o/config\n    body: \"{{ lookup('template', 'outbox.json.j2') }}\"\n", "it is a list of tasks of Ansible, which tailbox does not read"},
		"Makefile":          {"SHELL := /bin/sh\nconnectors:\n\t@./register.sh\n", "it is a Makefile, which tailbox does not read"},
		"Program.cs":        {"builder.AddContainer(\"debezium\", \"quay.io/debezium/server\").WithBindMount(\"./conf\", \"/debezium/conf\");\n", "it is a program, which tailbox does not read: give the application.properties that is mounted in it"},
		"register.http":     {"PUT {{ host }}/connector-plugins/x/config/validate\n\n{\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\"}\n\n###\nPOST {{ host }}/connectors\n\n< ./outbox.json\n", "it sends ./outbox.json: give that file"},
		"register.sh":       {"C=$(jq -n --arg h \"$H\" '{\"name\": \"o\", \"config\": {\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\", \"database.hostname\": $h}}')\ncurl -d \"$C\" http://c:8083/connectors\n", "it sends what another command prints"},
		"job.yaml":          {"kind: Job\nspec: {template: {spec: {containers: [{image: curl, command: [sh, -c, \"sed \\\n  -e 's|a|b|' \\\n  /config/c.json > /tmp/c.json\ncurl -X PUT http://c:8083/connectors/o/config -d @/tmp/c.json\"]}]}}}\n", "it sends what sed writes into /tmp/c.json"},
		"register.py":       {"with open(base + \"/outbox.json\") as f:\n    config = json.load(f)\nrequests.post(host + \"/conn\" + \"ectors\", json=config)\n", "it is a program, which tailbox does not read"},
		// as in joaohenriquefsp/prontumed
		"connect.php": {"<?php\n$config = ['connector.class' => 'io.debezium.connector.postgresql.PostgresConnector'];\n", "it is a program, which tailbox does not read"},
		"ci.yml":      {"name: ci\non: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: []\n", "it is a workflow of GitHub Actions, which tailbox does not read"},
		"spring.yaml": {"debezium:\n  connector.class: io.debezium.connector.postgresql.PostgresConnector\n  transforms: outbox\n", "it holds a connector deeper inside"},
		// as in aeswibon/manga-cdc
		"values.yaml": {"tier: dev\nimages: {connect: x}\ndebezium:\n  autoRegister: true\n", "it is a file with the values of a Helm chart, which tailbox does not read: give what helm template prints"},
		// as in ptaylon/temporal-banking-workflow
		"application.yml": {"server: {port: 8081}\nspring: {application: {name: account}}\n", "it holds no options: tailbox reads properties"},
	} {
		if got := fmt.Sprint(importError(name, c[0])); !strings.HasPrefix(got, filepath.Base(name)+": form: "+c[1]) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %q", name, got, c[1])
		}
	}
}

// TestImportScriptsOfFiles: a script that sends a file is answered with the file's name.
func TestImportScriptsOfFiles(t *testing.T) {
	t.Parallel()
	const rendered = "it sends what envsubst makes of conf/outbox.json: write that into a file, and give the file"
	const file, printed, send = "it sends conf/outbox.json: give that file", "it sends what another command prints: write that into a file, and give the file", "curl -X POST http://connect:8083/connectors "
	for script, want := range map[string]string{
		"envsubst < conf/outbox.json | " + send + "-d @-":                     rendered,
		"cat conf/outbox.json | " + send + "--data @-":                        file,
		"jq .config conf/outbox.json | " + send + "-d @-":                     file,
		send + "-d \"$(cat conf/outbox.json)\"":                               file,
		"CONFIG=$(envsubst < 'conf/outbox.json')\n" + send + "-d \"$CONFIG\"": rendered,
		send + "-T conf/outbox.json":                                          file,
		// as in Loopers-dev-lab/loop-pack-be-l2-vol3-java
		send + "-d @\"$(dirname \"$0\")/outbox.json\"":                     "it sends $(dirname \"$0\")/outbox.json: give that file",
		send + "-d \"@$(dirname $0)/outbox.json\"":                         "it sends $(dirname $0)/outbox.json: give that file",
		send + "--upload-file=\"conf/outbox.json\"":                        file,
		"http POST :8083/connectors < conf/outbox.json":                    file,
		"wget --post-file=conf/outbox.json http://connect:8083/connectors": file,
		"kubectl -n shop apply -f conf/outbox.json":                        file,
		"oc create --filename=conf/outbox.json":                            file,
		send + "-o /tmp/answer.json -d @conf/outbox.json":                  file,
		// as in xrl111/Black-Luna-Tarot, josecanhelp/demo-file-migration-system and sanjuthomas/policy-pilot
		"CONFIG=\"conf/outbox.json\"\n" + send + "-d @$CONFIG":                             file,
		"CONFIG=\"${CONFIG:-conf/outbox.json}\"\n" + send + "-d @\"${CONFIG}\"":            file,
		"F=$1\n" + send + "-d @$F":                                                         "it sends $F: give that file",
		"for f in conf/*.json; do\n  " + send + "-d @$f\ndone":                             "it sends conf/*.json: give the one of them that has an outbox event router",
		"for f in \"$(dirname \"$0\")\"/*.json; do\n  " + send + "-d @$f\ndone":            "it sends $f: give the one of them that has an outbox event router",
		"F=/tmp/c.json\nenvsubst '$A' < conf/outbox.json > \"$F\"\n" + send + "-d @\"$F\"": "it sends what envsubst writes into $F: give the file that this makes",
		send + "-d @a.json\n" + send + "-d @b.json":                                        "it sends a.json, b.json: give the one of them that has an outbox event router",
		"http PUT :8083/connectors/o/config @conf/outbox.json":                             file,
		"confluent connect cluster create --config-file conf/outbox.json":                  file,
		"aws kafkaconnect create-connector --cli-input-json file://conf/outbox.json":       file,
		"FILE=conf/outbox.json; " + send + "-d @$FILE":                                     file,
		"./render.sh | " + send + "-o /tmp/answer.json -d @-":                              printed,
		"CONFIG=$(./render.sh)\n" + send + "--data \"$CONFIG\"":                            printed,
		"curl http://connect:8083/connectors -o /tmp/answer.json":                          "it is a script that sends no connector",
		// as in safa-56/etiya-crm-lite-microservice
		"./render.sh | " + send + "-so /tmp/answer.json --data-binary @-\ncat /tmp/answer.json":   printed,
		"./render.sh | " + send + "--output \"/tmp/answer.json\" -d @-\ncat \"/tmp/answer.json\"": printed,
		"docker compose up -d\n@echo up\ncurl http://connect:8083":                                "it is a script that sends no connector",
		"docker run -e BOOTSTRAP_SERVERS=k:9092 debezium/connect":                                 "it is a script with docker run, which tailbox does not read: give the connector, and write the variables of its worker into a .env file",
		"docker run -v $PWD/conf:/debezium/conf debezium/server":                                  "it is a script with docker run, which tailbox does not read: give the application.properties that is mounted in it",
		"set -e\ndocker compose up -d":                                                            "it is a script that sends no connector",
	} {
		got := fmt.Sprint(importError("register.sh", "#!/bin/sh\n"+script+"\n"))
		if !strings.HasPrefix(got, "register.sh: form: "+want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %q", script, got, want)
		}
	}
	// Beside a connector it does not matter, and a file of variables is no such script.
	yaml := imported(t, environment(), "start.sh", "#!/bin/sh\nkubectl apply -f x.yaml\n", "connector.json", text(t, "connector.json"), "env.sh", "export BOOTSTRAP_SERVERS=k:9092\nexport KEY_CONVERTER=org.apache.kafka.connect.storage.StringConverter\n")
	if !has(yaml, `brokers: ["k:9092"]`) {
		t.Error(yaml)
	}
}

// TestImportRequestOfFile: the file of an HTTP client is left aside, too.
func TestImportRequestOfFile(t *testing.T) {
	t.Parallel()
	files := []debezium.File{{Name: "register.http", Data: []byte("POST http://connect:8083/connectors\n\n< ./connector.json\n")}, {Name: "connector.json", Data: []byte(text(t, "connector.json"))},
		{Name: "worker.properties", Data: []byte(text(t, "worker.properties"))}}
	told, err := fates(t, files, bytea)
	if got := told["form"]; err != nil || got.Fate != debezium.NoEffect || !strings.Contains(got.How, "it sends ./connector.json: give that file") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestImportFilesBesideAConnector: a script given together with the file that it sends is left aside, and listed.
func TestImportFilesBesideAConnector(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"curl -d @connector.json http://connect:8083/connectors":                                         "it sends connector.json: give that file",
		"jq .config connector.json | curl -d @- http://connect:8083/connectors":                          "it sends connector.json: give that file",
		"jq '.config.\"topic.prefix\"=\"x\"' connector.json | curl -d @- http://connect:8083/connectors": "it sends what jq makes of connector.json: write that into a file, and give the file",
		"sed s/a/b/ < connector.json | curl -d @- http://connect:8083/connectors":                        "it sends what sed makes of connector.json: write that into a file, and give the file",
		"./render.sh | curl -d @- http://connect:8083/connectors":                                        "it sends what another command prints: write that into a file, and give the file",
		"curl http://connect:8083/connectors":                                                            "it is a script that sends no connector",
	} {
		files := []debezium.File{{Name: "register.sh", Data: []byte("#!/bin/sh\n" + script + "\n")}, {Name: "connector.json", Data: []byte(text(t, "connector.json"))},
			{Name: "worker.properties", Data: []byte(text(t, "worker.properties"))}}
		told, err := fates(t, files, bytea)
		if got := told["form"]; err != nil || got.Fate != debezium.NoEffect || !strings.HasPrefix(got.How, "another file holds the connector; without that file: "+want) {
			t.Errorf("%s: %+v, %v, want %q", script, got, err, want)
		}
	}
}

// TestImportPipedDocument: what a script changes before it sends it is not what stands there, as in a script that renders its connector by envsubst.
func TestImportPipedDocument(t *testing.T) {
	t.Parallel()
	const send = "curl -d @- http://connect:8083/connectors\n"
	const here, word = " <<EOF\n%s\nEOF\n", "CONFIG='%s'\n"
	for script, want := range map[string]string{
		"cat <<EOF | DOLLAR='$' envsubst | " + send:                 "the script changes it with envsubst before it sends it",
		"config() {\n  cat <<EOF | sed s/a/b/\n%s\nEOF\n}\n" + send: "the script changes it with sed before it sends it",
		"cat <<EOF | " + send:                                       "",
		// what comes behind the command that sends changes the answer
		"curl -d @- http://connect:8083/connectors <<EOF | jq .name\n%s\nEOF\n":                                            "",
		"NAME=$(curl -d \"$(cat <<EOF\n%s\nEOF\n)\" http://connect:8083/connectors | jq -r .name)\n":                       "",
		"cat <<EOF | docker exec -i connect curl -d @- http://localhost:8083/connectors | python3 -m json.tool\n%s\nEOF\n": "",
		"cat <<EOF | jq -c . | " + send:                                             "",
		word + "NAME=$(echo \"$CONFIG\" | jq -r .name)\necho \"$CONFIG\" | " + send: "",
		// words
		"echo '%s' | sed s/a/b/ | " + send:                                                          "the script changes it with sed before it sends it",
		word + "echo \"$CONFIG\" | jq '.config.x=1' | " + send:                                      "the script changes it with jq before it sends it",
		word + "CONFIG=$(echo \"$CONFIG\" | jq '.config.x=1')\ncurl -d \"$CONFIG\" http://c:8083\n": "the script changes it with jq before it sends it",
		word + "sed s/a/b/ <<< \"$CONFIG\" | " + send:                                               "the script changes it with sed before it sends it",
		word + "echo \"${CONFIG//a/b}\" | " + send:                                                  "the script changes it with ${CONFIG//a/b} before it sends it",
		word + "curl -d \"$(echo \"$CONFIG\" | tr -d '\\n')\" http://c:8083\n":                      "",
		"docker exec -i c sh -c 'sed s/a/b/ | curl -d @- http://c:8083'" + here:                     "the script changes it with sed before it sends it",
		// substitutions
		word + "curl -d \"$(echo \"$CONFIG\" | sed s/a/b/)\" http://c:8083\n":                     "the script changes it with sed before it sends it",
		word + "BODY=$(echo \"$CONFIG\" | sed s/a/b/)\ncurl -d \"$BODY\" http://c:8083\n":         "the script changes it with sed before it sends it",
		"BODY=$(sed s/a/b/" + here + ")\necho \"$BODY\" | " + send:                                "the script changes it with sed before it sends it",
		word + "curl -X PUT -d \"$CONFIG\" \"http://c:8083/$(echo \"$CONFIG\" | jq -r .name)\"\n": "",
		// files
		"cat > c.json" + here + "sed -i s/a/b/ c.json\ncurl -d @c.json http://c:8083\n":     "the script changes it with sed before it sends it",
		"cat" + " > c.json" + here + "sed s/a/b/ c.json | " + send:                          "the script changes it with sed before it sends it",
		"cat > c.tpl" + here + "envsubst < c.tpl > c.json\ncurl -d @c.json http://c:8083\n": "the script changes it with envsubst before it sends it",
		"cat > c.json" + here + "sed -i s/a/b/ other.json\ncurl -d @c.json http://c:8083\n": "",
		"cat > c.json" + here + "cat c.json | " + send:                                      "",
		"printf '%%s' '%s' | " + send:                                                       "",
		"sed s/a/b/" + here + "curl http://connect:8083/connectors\n":                       "",
	} {
		if !strings.Contains(script, "%s") {
			script += "%s\nEOF\n"
		}
		got := fmt.Sprint(importError("register.sh", "#!/bin/sh\n"+fmt.Sprintf(script, text(t, "connector.json"))))
		if want != "" && !strings.Contains(got, "JSON: cannot be read: "+want) || want == "" && strings.Contains(got, "changes it") {
			t.Errorf("%s: %s, want %q", script, got, want)
		}
	}
}

// TestImportPrinted: printf fills in its directives.
func TestImportPrinted(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(importError("register.sh", "printf '"+connectorWith(t, "database.hostname", "%s")+"' db | curl -d @- http://connect:8083/connectors\n"))
	if !strings.Contains(got, "the script changes it with printf before it sends it") {
		t.Error(got)
	}
}

func importError(name, data string) error {
	_, err := debezium.Import([]debezium.File{{Name: name, Data: []byte(data)}}, environment(), nil, bytea)
	return err
}

// TestImportTemplates: a template of Helm is named also if it is YAML, in which a placeholder without quotes is a mapping as a key.
func TestImportTemplates(t *testing.T) {
	t.Parallel()
	// as in wadechandler/cnpg-partman-with-strimzi-debezium-outbox-poc
	const chart = "kind: KafkaConnector\nmetadata:\n  name: {{ .Values.name }}\nspec:\n  class: {{ .Values.class }}\n"
	for data, want := range map[string]string{
		chart:                                   "c.yaml: form: it is a template (line 3: a key must be a text): give it with the values filled in, as helm template prints it",
		"kind: KafkaConnector\n? [a, b]\n: c\n": "c.yaml: YAML: cannot be read: line 2: a key must be a text: give the connector's configuration as Kafka Connect takes it",
	} {
		if got := fmt.Sprint(importError("c.yaml", data)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	script := "kubectl apply -f - <<'EOF'\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnector\n? [a, b]\n: c\nEOF\n"
	if got := fmt.Sprint(importError("apply.sh", script)); !strings.HasPrefix(got, "apply.sh: YAML: cannot be read: line 3: a key must be a text") {
		t.Error(got)
	}
}

// TestImportScriptParts: a variable that stands for a part of the JSON is named.
func TestImportScriptParts(t *testing.T) {
	t.Parallel()
	// as in diaa/event-driven-with-PostgreSQL
	script := "SSL=\n[ -z \"$X\" ] || SSL=',\"database.sslmode\": \"require\"'\n" + scriptWith(t, "", "database.port", `5432"${SSL}, "x": "${PORT:-1}`)
	if got := fmt.Sprint(importError("register.sh", script)); !strings.Contains(got, "${SSL} stands for a part of the JSON that the script sends") || strings.Contains(got, "PORT") || strings.Contains(got, "line 1") {
		t.Error(got)
	}
}
