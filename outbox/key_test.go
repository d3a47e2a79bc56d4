package outbox_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

// TestKey: the same parts make the same key, other parts another one, and every key fits a column of MaxKey characters.
func TestKey(t *testing.T) {
	t.Parallel()
	lists := [][]string{
		{"a", "b"}, {"a:b"}, {"a", "", "b"}, {"a", ":b"}, {"a:", "b"}, {"ab"}, {"", "a", "b"}, {"a", "b", ""}, {""}, {"", ""},
		{strings.Repeat("x", outbox.MaxKey)}, {strings.Repeat("x", outbox.MaxKey+1)}, {strings.Repeat("x", 300)}, {"\xff"}, {"\xfe"}, {"a\x00b"},
		{"0193-memo", "memo.created", strings.Repeat("long", 60) + "@example.org"}, {"sha256-abc"},
	}
	seen := map[string][]string{}
	for _, parts := range lists {
		key := outbox.Key(parts...)
		if other, ok := seen[key]; ok {
			t.Errorf("Key(%q) = Key(%q) = %q", parts, other, key)
		}
		seen[key] = parts
		if key != outbox.Key(slices.Clone(parts)...) {
			t.Errorf("Key(%q) differs the second time", parts)
		}
		if len(key) > outbox.MaxKey || key == "" || strings.ToValidUTF8(key, "") != key || strings.Contains(key, "\x00") {
			t.Errorf("Key(%q) = %q", parts, key)
		}
	}
	if got := outbox.Key("42", "OrderPaid"); got != "42:OrderPaid" {
		t.Errorf("a short key is %q, want it readable", got)
	}
	if got := outbox.Key(); got != "" {
		t.Errorf("Key() = %q, want none", got)
	}
	// A key that was hashed cannot be had by writing it.
	hashed := outbox.Key("a", "")
	if again := outbox.Key(hashed); again == hashed {
		t.Errorf("Key(%q) is itself", hashed)
	}
}

// TestNewID: ids are UUIDs of version 7, and sort by time.
func TestNewID(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	var first string
	for range 10000 {
		id := outbox.NewID()
		if !valid.MatchString(id) || seen[id] {
			t.Fatalf("id %q", id)
		}
		if first == "" {
			first = id
		}
		seen[id] = true
		if id[:13] < first[:13] {
			t.Fatalf("%s came after %s", id, first)
		}
	}
}
