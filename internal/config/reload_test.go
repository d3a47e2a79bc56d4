package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
)

// claims lists the keys that the tags of a struct name, each with its tag, and tells of fields without one.
func claims(t *testing.T, under string, typ reflect.Type) map[string]string {
	t.Helper()
	found := map[string]string{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		tags := 0
		for _, tag := range []string{tagFixed, tagLive} {
			keys, ok := field.Tag.Lookup(tag)
			if !ok {
				continue
			}
			tags++
			for key := range strings.SplitSeq(keys, ",") {
				if was, ok := found[under+key]; ok && was != tag {
					t.Errorf("%s%s is both fixed and live", under, key)
				}
				found[under+key] = tag
			}
		}
		if section, ok := field.Tag.Lookup(tagSection); ok {
			tags++
			for key, tag := range claims(t, section+".", field.Type) {
				found[key] = tag
			}
			found[section] = tagSection
		}
		if tags != 1 {
			t.Errorf("field %s%s: give it one of the tags fixed, live and section, so that a reload knows what to do", under, field.Name)
		}
	}
	return found
}

// Each key of the file belongs to a field that says whether a reload can change it: a new one cannot be forgotten.
func TestEveryKeyIsFixedOrLive(t *testing.T) {
	t.Parallel()
	claimed := claims(t, "", reflect.TypeFor[Config]())
	known := map[string]bool{}
	for _, kind := range []string{"postgres", "mysql", "mongodb"} {
		text := "zz: 1\nsource: {zz: 1, kind: " + kind + ", url: x}\nadmin: {zz: 1}\nlog: {zz: 1}\nsinks: {out: {kind: stdout}}\n"
		_, f, err := Read("x.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.problems {
			if p.key != "zz" {
				continue
			}
			for _, key := range p.Allowed {
				known[strings.TrimSuffix(p.Path, "zz")+key] = true
			}
		}
	}
	if len(known) < 20 {
		t.Fatalf("only the keys %v were found", known)
	}
	for key := range known {
		if claimed[key] == "" {
			t.Errorf("no field of Config is tagged with the key %s", key)
		}
	}
	for key := range claimed {
		if !known[key] {
			t.Errorf("a tag names the key %s, which the file does not have", key)
		}
	}
}

// A change of any field that is fixed is found, and named; one of a field that is live is none.
func TestFixed(t *testing.T) {
	t.Parallel()
	var walk func(under string, path []int, typ reflect.Type)
	walk = func(under string, path []int, typ reflect.Type) {
		for i := range typ.NumField() {
			field := typ.Field(i)
			if section, ok := field.Tag.Lookup(tagSection); ok {
				walk(section+".", append(slices.Clone(path), i), field.Type)
				continue
			}
			var old, next Config
			v := reflect.ValueOf(&next).Elem().FieldByIndex(append(slices.Clone(path), i))
			switch v.Interface().(type) {
			case *router.Router:
				next.Router = &router.Router{}
			case *slog.Level:
				next.Source.OnUpdate = new(slog.LevelError)
			case []outbox.Table:
				next.Source.Tables = []outbox.Table{{Name: "x"}}
			case source.LeftOff:
				next.Source.LeftOff = source.LeftOff{Position: "x"}
			case Alerts:
				next.Alerts.Repeat = time.Hour
			default:
				different(t, v)
			}
			var want []string
			if keys, ok := field.Tag.Lookup(tagFixed); ok {
				key, _, _ := strings.Cut(keys, ",")
				want = []string{under + key}
			}
			if got := Fixed(&old, &next); !slices.Equal(got, want) {
				t.Errorf("another %s%s: got %v, want %v", under, field.Name, got, want)
			}
		}
	}
	walk("", nil, reflect.TypeFor[Config]())
}

func different(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Uint32:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		t.Fatalf("say in this test how a value of type %s can be another one", v.Type())
	}
}

func parseFile(t *testing.T, text string) (*Config, *File) {
	t.Helper()
	c, f, err := Read(filepath.Join(t.TempDir(), "x.yaml"), []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	return c, f
}

const before = `
source: {kind: postgres, url: "host=/run dbname=x"}
sinks: {a: {kind: stdout}, b: {kind: stdout}}
routes: [{to: a}]
memory: 32MiB
`

// What is derived from other keys counts as well.
func TestFixedByFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, new, fixed, changed string }{
		"nothing":               {"", "", "", ""},
		"routes":                {"to: a", "to: b", "", "routes"},
		"how it is written":     {"memory: 32MiB", `memory: "32MiB" # as it was`, "", ""},
		"a key that is gone":    {"memory: 32MiB", "", "", "memory"},
		"a sink":                {"a: {kind: stdout}", "a: {kind: discard}, c: {kind: stdout}", "", "sinks.a sinks.c"},
		"by type":               {"to: a", "match: {type: [x]}, to: a", "", "routes"},
		"source":                {"dbname=x", "dbname=y", "source.url", "source.url"},
		"several":               {"memory", "pipeline: other\nmemory", "pipeline source.slot source.publication", "pipeline"},
		"the default of others": {"32MiB", "8MiB", "max_message", "memory"},
		"tables by options":     {"memory", "router: {table.field.event.payload: data}\nmemory", "source.tables", "router"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, oldFile := parseFile(t, before)
			next, nextFile := parseFile(t, strings.Replace(before, test.old, test.new, 1))
			if got := strings.Join(Fixed(old, next), " "); got != test.fixed {
				t.Errorf("fixed: got %q, want %q", got, test.fixed)
			}
			if got := strings.Join(oldFile.Changed(nextFile), " "); got != test.changed {
				t.Errorf("changed: got %q, want %q", got, test.changed)
			}
		})
	}
}

// If routes go by the type for the first time, the tables have to be looked at anew. That is no change of the source.
func TestRoutesByTypeForTheFirstTime(t *testing.T) {
	t.Parallel()
	table := func(needs bool) *Config {
		return &Config{Source: Source{Tables: []outbox.Table{{NeedsType: needs}}}}
	}
	for _, test := range []struct{ old, new, now bool }{{false, false, false}, {false, true, true}, {true, false, false}, {true, true, false}} {
		old, next := table(test.old), table(test.new)
		if got := Fixed(old, next); len(got) != 0 {
			t.Errorf("%+v: %v", test, got)
		}
		if got := NeedsTypeNow(old, next); got != test.now {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// The same text may hold other secrets later.
func TestAgain(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	_, f := parseFile(t, before+"admin: {token_file: "+secret+"}\n")
	again := func() (*Config, *File) {
		t.Helper()
		c, next, err := f.Again()
		if err != nil {
			t.Fatal(err)
		}
		return c, next
	}
	if _, next := again(); !f.SameSecrets(next) {
		t.Error("nothing has changed, and the secrets differ")
	}
	write("second\n")
	if c, next := again(); f.SameSecrets(next) || c.Admin.Token != "second" {
		t.Errorf("the token is %q", c.Admin.Token)
	}
}
