package config_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
)

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

// A variable in the user's part of a URL holds any text, unless somebody has escaped it already.
func TestEnvironmentInURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ url, value, want string }{
		"a password":           {"mysql://u:${X}@h/d", `p@s/s:w%d?#`, "mysql://u:p%40s%2Fs%3Aw%25d%3F%23@h/d"},
		"with a space":         {"mongodb://u:${X}@a:1,b:2/?replicaSet=rs", "it's + 1", "mongodb://u:it%27s%20%2B%201@a:1,b:2/?replicaSet=rs"},
		"escaped before":       {"mysql://u:${X}@h/d", "p%40ss", "mysql://u:p%40ss@h/d"},
		"user and password":    {"mysql://${X}@h/d", "u:p", "mysql://u:p@h/d"},
		"both, not escaped":    {"mysql://${X}@h/d", "u:p@s:s", "mysql://u:p%40s%3As@h/d"},
		"a default":            {"${NONE:-mysql://u:p@h/d}", "x", "mysql://u:p@h/d"},
		"in place of one":      {"${X:-mysql://u:p@h/d}", "mysql://v@i/e", "mysql://v@i/e"},
		"a host with default":  {"mysql://u@${NONE:-h:1}/d", "", "mysql://u@h:1/d"},
		"a scheme":             {"mysql://u:${X}@${NONE:-h@i}/d", "@", "mysql://u:%40@h@i/d"},
		"a host":               {"mysql://u@${X}/d", "h:3307", "mysql://u@h:3307/d"},
		"the whole address":    {"${X}", "mysql://u:p%40@h/d", "mysql://u:p%40@h/d"},
		"an @ in the database": {"mysql://u@h/d?x=${X}", "a@b", "mysql://u@h/d?x=a@b"},
		"no user":              {"mongodb://${X}:1/d", "a/b", "mongodb://a/b:1/d"},
	} {
		kind, _, _ := strings.Cut(c.url, ":")
		if kind != "mongodb" {
			kind = "mysql"
		}
		got, err := read(t, "", "source:\n  kind: "+kind+"\n  tables: [{name: s.t}]\n  url: |-\n    "+c.url+"\n", "X", c.value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Source.URL != c.want {
			t.Errorf("%s: %s, want %s", name, got.Source.URL, c.want)
		}
	}
}

// Where another reader of the log stopped is told in that reader's words.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	const token = "82691D597D000000012B0229296E0461"
	for yaml, want := range map[string]source.LeftOff{
		`kind: mysql, take_over: {file: mysql-bin.000003, pos: 157}`:          {Position: "mysql-bin.000003:157"},
		`kind: mariadb, take_over: {file: "bin.1", pos: "4", gtids: "0-1-7"}`: {Position: "bin.1:4", GTIDs: "0-1-7"},
		`kind: mongodb, take_over: {resume_token: "` + token + `"}`:           {Position: token},
	} {
		got, err := read(t, "", "source: {url: x, tables: [{}], "+yaml+"}\n")
		if err != nil || got.Source.LeftOff != want {
			t.Errorf("%s: %+v, %v", yaml, got, err)
		}
	}
	for yaml, want := range map[string]string{
		`kind: mysql, take_over: {file: mysql-bin, pos: 157}`:     `source.take_over.file "mysql-bin": must be the name of a file of the binlog`,
		`kind: mysql, take_over: {pos: 157}`:                      `source.take_over.file: must be`,
		`kind: mysql, take_over: {file: a.1, pos: 3}`:             `source.take_over.pos "3": must be a position`,
		`kind: mysql, take_over: {file: a.1, pos: x, row: 1}`:     `source.take_over.row: unknown key`,
		`kind: mysql, take_over: true`:                            `source.take_over`,
		`kind: mysql, read: poll, take_over: {file: a.1, pos: 4}`: `source.take_over: cannot be used with read: poll`,
		`kind: mongodb, take_over: {resume_token: AbC=}`:          `source.take_over.resume_token "AbC=": must be the text`,
	} {
		if _, err := read(t, "", "source: {url: x, tables: [{shape: tailbox}], "+yaml+"}\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", yaml, err, want)
		}
	}
}
