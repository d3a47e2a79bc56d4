package nats

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
		"password":       {Config{Servers: []string{"n1"}, Username: "u", Password: "p"}, "password goes to nats://n1:4222"},
		"token":          {Config{Servers: []string{"tls://n1", "nats://n2:4222"}, Token: "t"}, "token goes to nats://n2:4222"},
		"token, here":    {Config{Servers: []string{"localhost"}, Token: "t"}, ""},
		"token, TLS":     {Config{Servers: []string{"n1"}, Token: "t", TLS: &sink.TLS{}}, ""},
		"token, tls URL": {Config{Servers: []string{"tls://n1"}, Token: "t"}, ""},
		"allowed":        {Config{Servers: []string{"n1"}, Token: "t", AllowPlaintext: true}, ""},
		"nkey":           {Config{Servers: []string{"n1"}, NKey: "SU"}, ""},
	} {
		err := test.cfg.plaintext()
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
