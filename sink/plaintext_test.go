package sink_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

func TestPlaintext(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"localhost:9092": "", "127.0.0.1:9092": "", "[::1]:9092": "", "http://127.8.0.1:80/hook": "", "nats://localhost:4222": "",
		"k1:9092": "k1:9092", "10.0.0.5:9092": "10.0.0.5:9092", "nats://n1:4222": "nats://n1:4222", "http://u:secret@example.org/secret?secret": "http://example.org ",
	} {
		err := sink.Plaintext("password", "localhost:1", address)
		if !says(err, want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), "allow_plaintext") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
