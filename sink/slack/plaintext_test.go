package slack

import (
	"strings"
	"testing"
)

func TestPlaintext(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  Config
		says string
	}{
		"webhook": {Config{WebhookURL: "http://example.org/services/x"}, "webhook_url goes to http://example.org "},
		"token":   {Config{Token: "t", APIURL: "http://example.org/api"}, "token goes to http://example.org "},
		"here":    {Config{Token: "t", APIURL: "http://localhost/api"}, ""},
		"TLS":     {Config{Token: "t"}.withDefaults(), ""},
		"allowed": {Config{WebhookURL: "http://example.org/services/x", AllowPlaintext: true}, ""},
	} {
		err := test.cfg.plaintext()
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
