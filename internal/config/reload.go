package config

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/outbox"
)

// Names of the tags of Config's fields. A field has one of them, whose value lists the keys that make it; a section's fields have their own.
const (
	tagFixed   = "fixed"
	tagLive    = "live"
	tagSection = "section"
)

// Fixed returns the keys by which two configurations differ and that a relay cannot change while it runs. Of a field that several keys make, it names
// the first.
func Fixed(old, next *Config) []string {
	return slices.Compact(fixed("", reflect.ValueOf(*old), reflect.ValueOf(*next)))
}

func fixed(under string, old, next reflect.Value) (keys []string) {
	for i := range old.NumField() {
		field := old.Type().Field(i)
		if section, ok := field.Tag.Lookup(tagSection); ok {
			keys = append(keys, fixed(section+".", old.Field(i), next.Field(i))...)
			continue
		}
		if _, ok := field.Tag.Lookup(tagLive); ok || same(old.Field(i).Interface(), next.Field(i).Interface()) {
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get(tagFixed), ",")
		keys = append(keys, under+key)
	}
	return keys
}

func same(old, next any) bool {
	if tables, ok := next.([]outbox.Table); ok {
		return sameTables(old.([]outbox.Table), tables)
	}
	return reflect.DeepEqual(old, next)
}

// sameTables compares what the source does with its tables: the type is read whether or not routes go by it, and admin.send is compared by itself.
func sameTables(old, next []outbox.Table) bool {
	next = slices.Clone(next)
	for i := range min(len(old), len(next)) {
		next[i].NeedsType, next[i].Writes = old[i].NeedsType, old[i].Writes
	}
	return reflect.DeepEqual(old, next)
}

// NeedsTypeNow reports whether the routes of next go by a type that old could do without: a table may lack it, which only a start looks for.
func NeedsTypeNow(old, next *Config) bool {
	for i := range min(len(old.Source.Tables), len(next.Source.Tables)) {
		if next.Source.Tables[i].NeedsType && !old.Source.Tables[i].NeedsType {
			return true
		}
	}
	return false
}

// Again reads the text of the file anew, and with it the files that it names: they may hold other secrets by now.
func (f *File) Again() (*Config, *File, error) { return Read(f.name, f.data, f.env) }

// SameSecrets reports whether two files hold the same secrets.
func (f *File) SameSecrets(other *File) bool {
	return slices.Equal(slices.Sorted(slices.Values(f.secrets)), slices.Sorted(slices.Values(other.secrets)))
}

// Changed returns the keys by which the texts of two files differ, such as routes or sinks.kafka.
func (f *File) Changed(next *File) []string { return changed("", f.root, next.root) }

// changed goes one step below the file's own keys.
func changed(under string, old, next *yaml.Node) (keys []string) {
	for _, key := range slices.Compact(slices.Sorted(slices.Values(append(keysOf(old), keysOf(next)...)))) {
		_, was := child(old, key)
		_, is := child(next, key)
		switch {
		case was != nil && is != nil && equal(was, is):
		case under == "" && was != nil && is != nil && was.Kind == yaml.MappingNode && is.Kind == yaml.MappingNode:
			keys = append(keys, changed(key+".", was, is)...)
		default:
			keys = append(keys, under+key)
		}
	}
	return keys
}

func keysOf(n *yaml.Node) (keys []string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return keys
}

// equal compares values, not how they are written.
func equal(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, equal)
}
