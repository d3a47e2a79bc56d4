package kafka

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

func TestPlaintext(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  Config
		says string
	}{
		"plain":       {Config{Brokers: []string{"k1:9092"}, SASL: &SASL{Mechanism: "PLAIN"}}, "sasl.password goes to k1:9092"},
		"plain, here": {Config{Brokers: []string{"localhost:9092"}, SASL: &SASL{Mechanism: "plain"}}, ""},
		"plain, TLS":  {Config{Brokers: []string{"k1:9092"}, SASL: &SASL{Mechanism: "plain"}, TLS: &sink.TLS{}}, ""},
		"allowed":     {Config{Brokers: []string{"k1:9092"}, SASL: &SASL{Mechanism: "plain"}, AllowPlaintext: true}, ""},
		"scram":       {Config{Brokers: []string{"k1:9092"}, SASL: &SASL{Mechanism: "scram-sha-256"}}, ""},
		"nobody":      {Config{Brokers: []string{"k1:9092"}}, ""},
	} {
		err := test.cfg.plaintext()
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
