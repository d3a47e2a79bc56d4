package trace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/trace"
)

// TestSettings: what is wrong is told all at once, with the variable, its value and the fix, and never with what may be secret.
func TestSettings(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": tailbox speaks only http/protobuf: set it to http/protobuf or remove it, and name the collector's port for that, usually 4318`},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL "http/json": tailbox speaks only`},
		{endpoint, "localhost:4318", endpoint + ": must be a URL that begins with http:// or https://"},
		{endpoint, "https://u:secret@h", "OTEL_EXPORTER_OTLP_HEADERS"},
		{endpoint, "https://h:secret/\x7f", endpoint + ": must be a URL"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "secret", "OTEL_EXPORTER_OTLP_HEADERS: must be key=value pairs"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=secret%zz", "OTEL_EXPORTER_OTLP_HEADERS: must be key=value pairs"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0Ab", "OTEL_EXPORTER_OTLP_HEADERS: holds what no HTTP header can"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a b=secret", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: holds what no HTTP header can"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TIMEOUT "10s": must be a number of milliseconds`},
		{"OTEL_BSP_SCHEDULE_DELAY", "0", `OTEL_BSP_SCHEDULE_DELAY "0": must be`},
		{"OTEL_BSP_EXPORT_TIMEOUT", "9999999999", "OTEL_BSP_EXPORT_TIMEOUT"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "1000000", `OTEL_BSP_MAX_QUEUE_SIZE "1000000": must be a number from 1 to 20000`},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3000", `"3000": must not be above OTEL_BSP_MAX_QUEUE_SIZE, which is 2048`},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `OTEL_EXPORTER_OTLP_COMPRESSION "zstd": set it to none or gzip`},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", `OTEL_TRACES_SAMPLER "jaeger_remote": set it to parentbased_always_on or`},
		{"OTEL_TRACES_SAMPLER_ARG", "10%", `OTEL_TRACES_SAMPLER_ARG "10%": must be a number from 0 to 1`},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", `OTEL_TRACES_SAMPLER_ARG "NaN"`},
		{"OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER "zipkin": set it to otlp or none`},
		{"OTEL_SDK_DISABLED", "yes", `OTEL_SDK_DISABLED "yes": set it to true or false`},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "OTEL_RESOURCE_ATTRIBUTES: must be key=value pairs"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", file, "must be a file with certificates in PEM form"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", file + ".gone", "cannot be read"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", file, "set it together with OTEL_EXPORTER_OTLP_CLIENT_KEY"},
	} {
		env := map[string]string{endpoint: "http://localhost:4318", "OTEL_TRACES_SAMPLER": "traceidratio", test.name: test.value}
		s, err := trace.Read(environment(env), "1")
		if s != nil || err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: got %v, want %s", test.name, test.value, err, test.want)
		}
	}
	_, err := trace.Read(environment(map[string]string{endpoint: "h", "OTEL_BSP_MAX_QUEUE_SIZE": "x", "OTEL_TRACES_SAMPLER": "x"}), "1")
	if n := strings.Count(err.Error(), "OTEL_"); n < 3 {
		t.Errorf("not all at once: %v", err)
	}
}

func TestWhetherAndWhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  map[string]string
		want string // "": off
	}{
		{nil, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_EXPORTER": "otlp"}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "TRUE"}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_TRACES_EXPORTER": "none"}, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "false"}, "http://h:4318/v1/traces"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://h/a/?key=secret"}, "https://h/a/v1/traces"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318"}, "http://h:4318/"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, "http://t/x"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://h/v1/traces"},
	} {
		s, err := trace.Read(environment(test.env), "1")
		got := ""
		if s != nil {
			got = s.Endpoint()
		}
		if err != nil || got != test.want {
			t.Errorf("%v: got %q, %v, want %q", test.env, got, err, test.want)
		}
	}
}
