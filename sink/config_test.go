package sink_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		tls      *sink.TLS
		validate string
		config   string
	}{
		{name: "nil"},
		{name: "zero", tls: &sink.TLS{}},
		{name: "cert alone", tls: &sink.TLS{Cert: "c.pem"}, validate: "tls.key"},
		{name: "key alone", tls: &sink.TLS{Key: "k.pem"}, validate: "tls.cert"},
		{name: "missing files", tls: &sink.TLS{CA: "missing/ca.pem", Cert: "missing/c.pem", Key: "missing/k.pem"}, config: "missing/c.pem"},
		{name: "no certificate in ca", tls: &sink.TLS{CA: empty}, config: "tls.ca"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.tls.Validate(); !says(err, test.validate) {
				t.Errorf("Validate: %v, want %q", err, test.validate)
			}
			if test.validate != "" {
				return
			}
			if _, err := test.tls.Config(); !says(err, test.config) {
				t.Errorf("Config: %v, want %q", err, test.config)
			}
		})
	}
}

// says reports whether err holds text, or is nil where text is empty.
func says(err error, text string) bool {
	if text == "" || err == nil {
		return text == "" && err == nil
	}
	return strings.Contains(err.Error(), text)
}
