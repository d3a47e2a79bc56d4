package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestBrokenURLs: of a URL whose user name or password is not percent-encoded, no part is printed, and none is taken for a host's name.
func TestBrokenURLs(t *testing.T) {
	t.Parallel()
	const source = "source: {kind: postgres, url: 'postgres://127.0.0.1:1/d'}\n"
	keys := []struct{ key, scheme, config string }{
		{"source.url", "postgres", "source: {kind: postgres, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.lock_url", "postgresql", "source: {kind: postgres, url: 'postgres://127.0.0.1:1/d', lock_url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.url", "mysql", "source: {kind: mysql, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.url", "mariadb", "source: {kind: mariadb, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.url", "mongodb", "source: {kind: mongodb, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.url", "mongodb+srv", "source: {kind: mongodb, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"source.url", "amqp", "source: {kind: postgres, url: %q}\nsinks: {a: {kind: discard}}\n"},
		{"sinks.a.url", "http", source + "sinks: {a: {kind: http, url: %q}}\n"},
		{"sinks.a.url", "https", source + "sinks: {a: {kind: http, url: %q}}\n"},
		{"sinks.a.url", "amqp", source + "sinks: {a: {kind: http, url: %q}}\n"},
		{"sinks.a.servers", "nats", source + "sinks: {a: {kind: nats, servers: [%q]}}\n"},
		{"sinks.a.servers", "tls", source + "sinks: {a: {kind: nats, servers: %q}}\n"},
		{"sinks.a.brokers", "kafka", source + "sinks: {a: {kind: kafka, brokers: [%q]}}\n"},
		{"sinks.a.brokers", "sasl_ssl", source + "sinks: {a: {kind: kafka, brokers: %q}}\n"},
		{"sinks.a.address", "smtp", source + "sinks: {a: {kind: smtp, from: a@example.org, address: %q}}\n"},
		{"sinks.a.webhook_url", "https", source + "sinks: {a: {kind: slack, webhook_url: %q}}\n"},
		{"sinks.a.api_url", "http", source + "sinks: {a: {kind: slack, token: t, channel: c, api_url: %q}}\n"},
	}
	broken := []string{"u5er:s3cr/p4rt#w0rd@l4st%zz", "u5er:s3cr/p4rt", "u5er:s3cr#p4rt", "u5er:s3cr?p4rt", "u5er:s3cr?p4rt=w0rd", "u5er:s3cr%zzp4rt", "u5er:s3crp4rt%",
		"u5er:7355/p4rt", "u5er:99999/p4rt", "u5er:s3cr@p4rt/w0rd", "u5er:s3cr@127.0.0.1:1/p4rt", "u5er:s3cr@p4rt?w0rd", "u5/er:s3cr", "u5#er", "u5%er:s3cr",
		"u5er:[s3cr/p4rt]", "u5er:s3cr\\p4rt%2", "u5er:7355/w0rd?p4rt#l4st", "7355/p4rt"}
	pieces := []string{"u5", "s3cr", "p4rt", "w0rd", "l4st", "7355", "99999"}
	for _, k := range keys {
		t.Run(k.scheme+" "+k.key, func(t *testing.T) {
			t.Parallel()
			for _, info := range broken {
				file := write(t, "bad.yaml", fmt.Sprintf(k.config+"admin: {listen: off}\n", k.scheme+"://"+info+"@127.0.0.1:1/db"))
				for _, line := range [][]string{{"check", "-c", file}, {"check", "--offline", "-c", file}, {"run", "-c", file}} {
					r := tailbox(t.Context(), "", line...)
					said := strings.ReplaceAll(r.out+r.err, file, "")
					if r.code != exitUsage || !strings.Contains(said, k.key) || !strings.Contains(said, "percent-encode") {
						t.Errorf("%s of %s: exit code %d, %s", line[0], info, r.code, said)
					}
					for _, piece := range pieces {
						if strings.Contains(said, piece) {
							t.Errorf("%s of %s shows %q: %s", line[0], info, piece, said)
						}
					}
				}
			}
		})
	}
	for _, url := range []string{"postgres://u5er:s3cr/p4rt@127.0.0.1/d", "mysql://u5er:s3cr#p4rt@127.0.0.1/d"} {
		if r := demoOf(t, "--url", url); r.code != exitUsage || strings.Contains(r.out+r.err, "p4rt") || strings.Contains(r.out+r.err, "s3cr") || !strings.Contains(r.err, "percent-encode") {
			t.Errorf("demo --url %s: %+v", url, r)
		}
	}
}

// TestEncodedURLs: what is percent-encoded is read as ever, and an @ in a password need not be.
func TestEncodedURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"source: {kind: postgres, url: 'postgres://u%40x:a%2Fb%23c%3Fd%25e@127.0.0.1:1/d?application_name=x%40y'}\nsinks: {a: {kind: discard}}\n",
		"source: {kind: postgres, url: 'postgres://u:a@b@127.0.0.1:1/d'}\nsinks: {a: {kind: discard}}\n",
		"source: {kind: postgres, url: 'host=127.0.0.1 password=x://a/b@c'}\nsinks: {a: {kind: discard}}\n",
		"source: {kind: mongodb, url: 'mongodb://u:a%2Fb@127.0.0.1:1,127.0.0.1:2/d?replicaSet=rs0'}\nsinks: {a: {kind: http, url: 'https://u:a%2Fb@127.0.0.1/%40x?y=%40'}}\n",
	} {
		if r := tailbox(t.Context(), "", "check", "--offline", "-c", write(t, "good.yaml", c)); r.code != exitDone {
			t.Errorf("%s: %+v", c, r)
		}
	}
}

// TestBrokersInOneText: brokers may come as the one text that other tools of Kafka take, from the environment too.
func TestBrokersInOneText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"'127.0.0.1:1,127.0.0.1:2'", "['127.0.0.1:1, 127.0.0.1:2']", "'${BROKERS}'", "['${BROKERS}']", "'${NONE:-127.0.0.1:1,127.0.0.1:2}'"} {
		rig := &rig{t: t, env: map[string]string{"BROKERS": "127.0.0.1:1,127.0.0.1:2,"},
			file: write(t, "tailbox.yaml", "source: {kind: postgres, url: 'postgres://127.0.0.1:1/d'}\nsinks: {a: {kind: kafka, brokers: "+text+", connect_timeout: 1s}}\n")}
		if r := rig.command("check", "--offline"); r.code != exitDone {
			t.Errorf("%s: %+v", text, r)
		}
		if r := rig.command("check"); !strings.Contains(r.out, "127.0.0.1:1") || !strings.Contains(r.out, "127.0.0.1:2") {
			t.Errorf("%s: check asks not both: %+v", text, r)
		}
	}
	file := write(t, "tailbox.yaml", "source: {kind: postgres, url: 'postgres://127.0.0.1:1/d'}\nsinks: {a: {kind: kafka, brokers: 'h:1,h'}}\n")
	if r := tailbox(t.Context(), "", "check", "--offline", "-c", file); r.code != exitUsage || !strings.Contains(r.err, `sinks.a.brokers: "h" is not allowed`) {
		t.Errorf("a wrong one: %+v", r)
	}
}
