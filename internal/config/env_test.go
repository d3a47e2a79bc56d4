package config_test

import "testing"

// A variable between the single quotes of libpq's keywords holds any text: what it holds cannot end the quotes.
func TestEnvironmentInKeywords(t *testing.T) {
	t.Parallel()
	const value = `it's a\b @ ${Y} $1 "x" \'`
	for name, c := range map[string]struct{ kind, url, want string }{
		"quoted":                  {"postgres", `host=h password='${X}'`, `host=h password='it\'s a\\b @ ${Y} $1 "x" \\\''`},
		"space around the sign":   {"postgres", `password = '<${X}>' user='${X}'`, `password = '<it\'s a\\b @ ${Y} $1 "x" \\\'>' user='it\'s a\\b @ ${Y} $1 "x" \\\''`},
		"behind an escaped quote": {"postgres", `password='it\'s ${X}'`, `password='it\'s it\'s a\\b @ ${Y} $1 "x" \\\''`},
		"a default as it stands":  {"postgres", `password='${NONE:-it\'s}${X}'`, `password='it\'sit\'s a\\b @ ${Y} $1 "x" \\\''`},
		"not quoted":              {"postgres", `${X}`, value},
		"a quote within a value":  {"postgres", `user=o'brien ${X} options='' ${X}`, `user=o'brien ` + value + ` options='' ` + value},
		"a URI":                   {"postgres", `postgres://h/d?options='${X}'`, `postgres://h/d?options='` + value + `'`},
		"another kind":            {"mysql", `mysql://h/d?x='${X}'`, `mysql://h/d?x='` + value + `'`},
	} {
		for _, key := range []string{"url", "lock_url"} {
			yaml := "source:\n  kind: " + c.kind + "\n  tables: [{name: s.t}]\n  " + key + ": |-\n    " + c.url + "\n"
			if key == "lock_url" {
				yaml += "  url: host=h\n"
			}
			got, err := read(t, "", yaml, "X", value)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if found := map[string]string{"url": got.Source.URL, "lock_url": got.Source.LockURL}[key]; found != c.want {
				t.Errorf("%s: %s is %s, want %s", name, key, found, c.want)
			}
		}
	}
}
