package debezium_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// Images and converters of the tests of Debezium's image.
const (
	ofDebezium    = "quay.io/debezium/connect:2.7"
	fromJSON      = "org.apache.kafka.connect.json.JsonConverter"
	fromText      = "org.apache.kafka.connect.storage.StringConverter"
	schemasAreOff = "CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE=false"
)

// workerIn is a compose file with a worker in an image, with a connector that names no converter of keys.
func workerIn(t *testing.T, image string, variables ...string) []debezium.File {
	t.Helper()
	compose := "services:\n  connect:\n    image: " + image + "\n    environment:\n      - BOOTSTRAP_SERVERS=k:9092\n"
	for _, v := range variables {
		compose += "      - " + v + "\n"
	}
	return []debezium.File{{Name: "compose.yaml", Data: []byte(compose)}, {Name: "c.json", Data: []byte(text(t, "connector.json"))}}
}

// TestImportConvertersOfImage: Debezium's image takes its worker's converters from KEY_CONVERTER and VALUE_CONVERTER alone, and has a default for them.
func TestImportConvertersOfImage(t *testing.T) {
	t.Parallel()
	const topic = "CONFIG_STORAGE_TOPIC=c"
	for name, c := range map[string]struct {
		image     string
		variables []string
		want      string
		refused   string
	}{
		// as in ebo-uf/lp-mall
		"a default":                     {ofDebezium, []string{topic, schemasAreOff}, "format.key: json  # the default of KEY_CONVERTER in Debezium's image", ""},
		"a default with schemas":        {ofDebezium, []string{topic}, "format.key.schema: ", ""},
		"an empty variable":             {"debezium/connect", []string{topic, schemasAreOff, "KEY_CONVERTER="}, "format.key: json", ""},
		"another registry":              {"r.example.org:5000/mirror/debezium/connect@sha256:0", []string{topic, schemasAreOff}, "format.key: json", ""},
		"an image built on it":          {"shop-connect", []string{topic, schemasAreOff}, "format.key: json", ""},
		"a variable":                    {ofDebezium, []string{topic, "KEY_CONVERTER=" + fromText}, "format.key: simplestring", ""},
		"overwritten by the default":    {ofDebezium, []string{topic, schemasAreOff, "CONNECT_KEY_CONVERTER=" + fromText}, "format.key: json", ""},
		"overwritten by the other":      {ofDebezium, []string{topic, "KEY_CONVERTER=" + fromText, "CONNECT_KEY_CONVERTER=" + fromJSON}, "format.key: simplestring", ""},
		"overwritten, in another order": {ofDebezium, []string{topic, "CONNECT_KEY_CONVERTER=" + fromJSON, "KEY_CONVERTER=" + fromText}, "format.key: simplestring", ""},
		"another image":                 {"confluentinc/cp-kafka-connect", []string{"CONNECT_KEY_CONVERTER=" + fromText}, "format.key: simplestring", ""},
		"another image without":         {"confluentinc/cp-kafka-connect", []string{"CONNECT_CONFIG_STORAGE_TOPIC=c"}, "", "key.converter: is missing, so that the worker's counts"},
		"an image of a like name":       {"acme/debezium-connect", []string{"CONNECT_CONFIG_STORAGE_TOPIC=c"}, "", "key.converter: is missing, so that the worker's counts"},
		"Debezium Server's image, say":  {"debezium/connect-ui", []string{"CONNECT_CONFIG_STORAGE_TOPIC=c"}, "", "key.converter: is missing, so that the worker's counts"},
		"both names of the topic's":     {"shop-connect", []string{topic, "CONNECT_CONFIG_STORAGE_TOPIC=c"}, "", "key.converter: is missing, so that the worker's counts"},
	} {
		yaml, err := debezium.Import(workerIn(t, c.image, c.variables...), environment(), nil, bytea)
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) || c.refused == "" && err != nil || !strings.Contains(string(yaml), c.want) {
			t.Errorf("%s: %v in\n%s", name, err, yaml)
		}
	}
}

// TestImportImageBesideFiles: files of variables count too, wherever they stand among the files, and a worker's own file counts before the default.
func TestImportImageBesideFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, data, want string }{
		"a .env file":     {".env", "KEY_CONVERTER=" + fromText + "\n", "format.key: simplestring"},
		"one overwritten": {".env", "CONNECT_KEY_CONVERTER=" + fromText + "\n" + schemasAreOff + "\n", "format.key: json"},
		"properties":      {"worker.properties", "key.converter=" + fromText + "\n", "format.key: simplestring"},
	} {
		files := append(workerIn(t, ofDebezium, "CONFIG_STORAGE_TOPIC=c"), debezium.File{Name: c.file, Data: []byte(c.data)})
		for range files {
			yaml, err := debezium.Import(files, environment(), nil, bytea)
			if err != nil || !has(string(yaml), c.want) {
				t.Errorf("%s: %v in\n%s", name, err, yaml)
			}
			files = append(files[1:], files[0])
		}
	}
}

// TestImportImageOfForms: the image counts wherever its variables stand.
func TestImportImageOfForms(t *testing.T) {
	t.Parallel()
	const variables = "BOOTSTRAP_SERVERS=k:9092\nCONFIG_STORAGE_TOPIC=c\n" + schemasAreOff + "\n"
	for name, worker := range map[string][]string{
		// as in alpeerkaraca/karga-backend
		"a Deployment": {"k.yaml", "kind: Deployment\nspec: {template: {spec: {containers: [{image: " + ofDebezium + ", env: [{name: BOOTSTRAP_SERVERS, value: 'k:9092'}, " +
			"{name: CONNECT_KEY_CONVERTER_SCHEMAS_ENABLE, value: 'false'}]}]}}}\n"},
		"an env_file": {"compose.yaml", "services: {connect: {image: '" + ofDebezium + "', env_file: connect.env}}\n", "connect.env", variables},
	} {
		if yaml := imported(t, environment(), append(worker, "c.json", text(t, "connector.json"))...); !has(yaml, "format.key: json") {
			t.Errorf("%s:\n%s", name, yaml)
		}
	}
	// Without a process, nothing tells who takes them: Confluent's image may, through a compose file.
	_, err := debezium.Import([]debezium.File{{Name: ".env", Data: []byte(variables)}, {Name: "c.json", Data: []byte(text(t, "connector.json"))}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "key.converter: is missing") {
		t.Error(err)
	}
}

// TestReportOfImage: each variable of a worker is listed.
func TestReportOfImage(t *testing.T) {
	t.Parallel()
	files := workerIn(t, ofDebezium, "CONFIG_STORAGE_TOPIC=c", "KEY_CONVERTER="+fromText, "CONNECT_KEY_CONVERTER="+fromJSON, "REST_PORT=8083", "INTERNAL_KEY_CONVERTER="+fromJSON, "VALUE_CONVERTER=")
	told, err := fates(t, files, bytea)
	for key, want := range map[string]string{
		"$CONNECT_KEY_CONVERTER":  "Debezium's image overwrites it from KEY_CONVERTER, or from that variable's default",
		"$REST_PORT":              "it sets no option that changes the messages",
		"$INTERNAL_KEY_CONVERTER": "it sets no option that changes the messages",
		"key.converter":           "format.key",
	} {
		if told[key].How != want || err != nil {
			t.Errorf("%s: %+v, %v", key, told[key], err)
		}
	}
}
