package debezium_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

const (
	inServer    = "debezium.sink.kafka.producer."
	inConnector = "producer.override."
	inWorker    = "producer."
)

// producers imports an option of a Kafka producer from each place where it can stand.
func producers(t *testing.T, lines string) map[string]func() (string, error) {
	t.Helper()
	worker, connector, server := text(t, "worker.properties"), text(t, "connector.json"), text(t, "server.properties")
	in := func(prefix string) string {
		var all string
		for line := range strings.Lines(lines + "\n") {
			all += prefix + strings.TrimSpace(line) + "\n"
		}
		return all
	}
	run := func(files ...string) func() (string, error) {
		return func() (string, error) {
			var all []debezium.File
			for _, f := range files {
				all = append(all, debezium.File{Name: "f", Data: []byte(f)})
			}
			yaml, err := debezium.Import(all, environment(), nil, bytea)
			return string(yaml), err
		}
	}
	var pairs string
	for line := range strings.Lines(lines) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		pairs += `"` + inConnector + key + `": "` + value + `", `
	}
	return map[string]func() (string, error){
		inServer:    run(server + "\n" + in(inServer)),
		inWorker:    run(worker+in(inWorker), connector),
		inConnector: run(worker, strings.Replace(connector, `"tasks.max"`, pairs+`"tasks.max"`, 1)),
	}
}

// The import refuses producer settings that would change where a message goes or how the connection is secured, and settings that it does not know.
// Each error names the fix.
func TestImportProducerRefuses(t *testing.T) {
	t.Parallel()
	const tls = "security.protocol=SSL\n"
	for lines, want := range map[string]string{
		"partitioner.ignore.keys=true":                                                       "set it to false",
		"partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner":          "remove it",
		"transactional.id=x":                                                                 "remove it",
		"interceptor.classes=x.Y":                                                            "remove it",
		"security.providers=x.Y":                                                             "remove it",
		tls + "ssl.truststore.type=PEM\nssl.truststore.certificates=-----BEGIN":              "ssl.truststore.location",
		tls + "ssl.keystore.type=PEM\nssl.keystore.certificate.chain=-----BEGIN":             "ssl.keystore.location",
		tls + "ssl.keystore.type=PEM\nssl.keystore.key=-----BEGIN":                           "ssl.keystore.location",
		tls + "ssl.keystore.type=PEM\nssl.keystore.location=/k.pem\nssl.key.password=hidden": "openssl",
		tls + "ssl.truststore.location=/k.jks":                                               "keytool",
		tls + "ssl.endpoint.identification.algorithm=":                                       "let any server answer",
		tls + "ssl.cipher.suites=TLS_AES_128_GCM_SHA256":                                     "remove it",
		tls + "ssl.enabled.protocols=TLSv1.3":                                                "TLS 1.2",
		tls + "ssl.enabled.protocols=TLSv1.1,TLSv1.2":                                        "TLS 1.2",
		tls + "ssl.engine.factory.class=x.Y":                                                 "remove it",
		"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required username='u' password='p';\nsasl.login.class=x.Y": "remove it",
		"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=x.Y":                                  "use PLAIN",
		"security.protocol=SASL_TLS": "must be",
	} {
		last := lines[strings.LastIndexByte(lines, '\n')+1:]
		key, value, _ := strings.Cut(last, "=")
		for prefix, run := range producers(t, lines) {
			_, err := run()
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), prefix+key) && want != "use PLAIN" {
				t.Errorf("%s%s: error %v, want one with %q", prefix, lines, err, want)
				continue
			}
			secret := strings.Contains(key, "password") || strings.HasSuffix(key, "keystore.key")
			if shown := strings.Contains(err.Error(), `"`+value+`"`); value != "" && want != "use PLAIN" && shown == secret {
				t.Errorf("%s%s: the error shows the value: %t: %v", prefix, lines, shown, err)
			}
		}
	}
}

// What has no effect is listed with its reason, in each place.
func TestImportProducerIgnores(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{"partitioner.ignore.keys=false", "partitioner.class=", "interceptor.classes=", "acks=all", "enable.idempotence=true", "retries=3", "retry.backoff.ms=1",
		"max.in.flight.requests.per.connection=1", "delivery.timeout.ms=1", "linger.ms=5", "batch.size=1", "buffer.memory=1", "max.block.ms=1", "max.request.size=1", "request.timeout.ms=1",
		"metadata.max.age.ms=1", "metadata.max.idle.ms=1", "metadata.recovery.strategy=none", "send.buffer.bytes=1", "receive.buffer.bytes=1", "reconnect.backoff.ms=1",
		"metric.reporters=", "metrics.sample.window.ms=1", "enable.metrics.push=false", "compression.zstd.level=3", "partitioner.adaptive.partitioning.enable=true", "transaction.timeout.ms=1",
		"key.serializer=org.apache.kafka.common.serialization.ByteArraySerializer", "partitioner.class=org.apache.kafka.clients.producer.internals.DefaultPartitioner",
		"security.protocol=PLAINTEXT\nssl.truststore.location=/k.jks", "security.protocol=PLAINTEXT\nssl.key.password=x", "security.protocol=PLAINTEXT\nssl.endpoint.identification.algorithm=",
		"security.protocol=PLAINTEXT\nsasl.mechanism=GSSAPI", "security.protocol=PLAINTEXT\nsasl.jaas.config=x", "security.protocol=PLAINTEXT\nsasl.kerberos.service.name=kafka",
		"security.protocol=SSL\nssl.truststore.type=PEM", "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.3", "security.protocol=SSL\nssl.protocol=TLSv1.3",
		"security.protocol=SSL\nssl.endpoint.identification.algorithm=https", "security.protocol=SSL\nssl.cipher.suites=", "security.protocol=SSL\nssl.provider=SunJSSE",
		"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required username='u' password='p';\nsasl.login.refresh.window.factor=1",
		"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required username='u' password='p';\nsasl.kerberos.service.name=kafka", "acks=${env:ACKS}"} {
		last := lines[strings.LastIndexByte(lines, '\n')+1:]
		key, _, _ := strings.Cut(last, "=")
		for prefix, run := range producers(t, lines) {
			yaml, err := run()
			if err != nil || !strings.Contains(yaml, "#   "+prefix+key+": ") {
				t.Errorf("%s%s: not listed: %v\n%s", prefix, lines, err, yaml)
			}
		}
	}
}

// TestImportProducerOfClass: an option that a Kafka producer does not know may be of a class that is refused.
func TestImportProducerOfClass(t *testing.T) {
	t.Parallel()
	// as in Tech-Adivas/RailDistTT
	for _, class := range []string{"value.serializer=io.confluent.kafka.serializers.KafkaAvroSerializer", "interceptor.classes=x.Y", "partitioner.class=x.Y", "acks=all"} {
		key, value, _ := strings.Cut(class, "=")
		told, _ := fates(t, []debezium.File{{Name: "f", Data: []byte(serverWith(t, inServer+key+"="+value+"\n"+inServer+"schema.registry.url=http://r"))}}, bytea)
		want := "it may be an option of the class that is refused"
		if key == "acks" {
			want = "Debezium does not know it either: look for a typing error"
		}
		if got := told[inServer+"schema.registry.url"]; got.How != want {
			t.Errorf("%s: %+v", class, got)
		}
	}
}

// A connector's own option counts before the worker's, which is listed.
func TestImportProducerOverridden(t *testing.T) {
	t.Parallel()
	yaml := imported(t, environment(), "w", text(t, "worker.properties"), "c", connectorWith(t, "producer.override.compression.type", "gzip"))
	if !has(yaml, `compression: "gzip"`) || !strings.Contains(yaml, "#   producer.compression.type: ") {
		t.Errorf("%s", yaml)
	}
}

// PEM files are Kafka's and tailbox's.
func TestImportProducerPEM(t *testing.T) {
	t.Parallel()
	for prefix, run := range producers(t, "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\nssl.keystore.type=PEM\nssl.keystore.location=/client.pem") {
		yaml, err := run()
		if err != nil || !has(yaml, `ca: "/ca.pem"`) || !has(yaml, `cert: "/client.pem"`) || !has(yaml, `key: "/client.pem"`) {
			t.Errorf("%s: %v\n%s", prefix, err, yaml)
		}
	}
}

// A sink's options that Debezium does not know have no effect, and so those of other sinks.
func TestImportSinkOptions(t *testing.T) {
	t.Parallel()
	const nats = "debezium.sink.type=nats-jetstream\ndebezium.sink.nats-jetstream.url=nats://a\n"
	for lines, want := range map[string]string{
		"debezium.sink.kafka.foo=x":                                                                                 "",
		"debezium.sink.type=redis\ndebezium.sink.redis.address=x":                                                   "debezium.sink.type",
		nats + "debezium.sink.nats-jetstream.subject=x":                                                             "",
		httpSink + "\ndebezium.sink.http.content-type=x":                                                            "", // as in jayy2kok/poc-ip
		httpSink + "\ndebezium.sink.http.retry.count=x":                                                             "", // as in pramodnarayana/soopa
		"debezium.sink.http.foo=x":                                                                                  "",
		nats + "debezium.sink.kafka.producer.foo=x":                                                                 "",
		httpSink + "\ndebezium.sink.http.authentication.jwt.username=x":                                             "",
		httpSink + "\ndebezium.sink.http.authentication.type=jwt\ndebezium.sink.http.authentication.jwt.username=x": "authentication.type",
	} {
		_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(serverWith(t, lines))}}, environment(), nil, bytea)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: error %v, want one with %q alone", lines, err, want)
		}
	}
}
