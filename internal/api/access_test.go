package api

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailbox/tailbox/internal/config"
)

// What another configuration takes away ends at once, also if the configuration is not in force yet; what it adds does not begin.
func TestEndTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("the-token-of-the-"+name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := &config.Admin{Token: "an old admin's token", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}, Tokens: []config.Token{
		{Name: "stays", Role: "viewer", File: file("stays")}, {Name: "goes", Role: "admin", File: file("goes")}, {Name: "sinks", Role: "admin", File: file("sinks")}}}
	next := &config.Admin{Token: "a new admin's token", Tokens: []config.Token{
		{Name: "stays", Role: "viewer", File: file("stays")}, {Name: "sinks", Role: "viewer", File: file("sinks")}, {Name: "comes", Role: "viewer", File: file("comes")}}}
	tokens := NewTokens(old, slog.New(slog.DiscardHandler))
	want := func(when string, holders ...string) {
		t.Helper()
		for _, text := range []string{"an old admin's token", "a new admin's token", "the-token-of-the-stays", "the-token-of-the-goes", "the-token-of-the-sinks", "the-token-of-the-comes"} {
			_, holds := tokens.Holder(HashOf(text))
			wanted := false
			for _, one := range holders {
				wanted = wanted || one == text
			}
			if holds != wanted {
				t.Errorf("%s: %q is valid: %t", when, text, holds)
			}
		}
	}
	before := []string{"an old admin's token", "the-token-of-the-stays", "the-token-of-the-goes", "the-token-of-the-sinks"}
	want("before", before...)
	tokens.End(next)
	want("while the reload waits", "the-token-of-the-stays")
	if len(tokens.proxies.at) != 0 {
		t.Error("a proxy is trusted on")
	}
	tokens.Set(old)
	want("after it failed", before...)
	tokens.Set(next)
	want("in force", "a new admin's token", "the-token-of-the-stays", "the-token-of-the-sinks", "the-token-of-the-comes")
}
