package config_test

import (
	"testing"

	"github.com/tailbox/tailbox/internal/config"
)

// TestHide: what was read as a secret is replaced wherever a text repeats it.
func TestHide(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("f", []byte(`
bearer: s3cr3t+token
short: abc
hook: https://hooks.example.org/services/T01/abcdefghijklmnopqrstuvwx?key=0123456789
mine: https://shop:pa55w%2Frd@example.org/events
servers: ["nats://relay:n4tspass@127.0.0.1:4222"]
plain: visible
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	top := f.Top()
	for _, key := range []string{"bearer", "short", "hook", "mine"} {
		top.Secret(key)
	}
	top.URLs("servers")
	top.Conceal("s3cr3t")
	hide := f.Hide()
	for text, want := range map[string]string{
		`{"authorization":"Bearer s3cr3t+token"}`:          `{"authorization":"Bearer ***"}`,
		"s3cr3t%2Btoken and s3cr3t":                        "*** and ***",
		"POST /services/T01/abcdefghijklmnopqrstuvwx":      "POST /services/T01/***",
		"key=0123456789":                                   "key=***",
		"pa55w/rd, Basic c2hvcDpwYTU1dy9yZA==, at /events": "***, Basic ***, at /events",
		"the alphabet begins with abc":                     "the alphabet begins with abc",
		"https://example.org/events":                       "https://example.org/events",
		"relay, n4tspass":                                  "relay, ***",
		"visible":                                          "visible",
		"":                                                 "",
	} {
		if got := hide(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
