package http

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
		"bearer":        {Config{URL: "http://example.org/x", Bearer: "t"}, "bearer goes to http://example.org "},
		"user":          {Config{URL: "http://u:p@example.org/x"}, "password in url goes to http://example.org "},
		"authorization": {Config{URL: "http://example.org/x", Headers: map[string]string{"authorization": "x"}}, "headers.Authorization"},
		"here":          {Config{URL: "http://127.0.0.1/x", Bearer: "t"}, ""},
		"TLS":           {Config{URL: "https://example.org/x", Bearer: "t"}, ""},
		"allowed":       {Config{URL: "http://example.org/x", Bearer: "t", AllowPlaintext: true}, ""},
		"nobody":        {Config{URL: "http://example.org/x"}, ""},
	} {
		err := test.cfg.plaintext()
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
