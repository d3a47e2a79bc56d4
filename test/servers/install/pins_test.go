package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestPins: what is fetched has to be what it was when it was chosen, in names and contents.
func TestPins(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	file := filepath.Join(tree, "lib", "a.jar")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("a"), 0o644) },
		func() error { return os.WriteFile(file, []byte("b"), 0o644) },
		func() error { return os.Rename(file, file+"x") },
		func() error { return os.Symlink("a", file) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		sum, err := sumOf(tree)
		if err != nil || seen[sum] {
			t.Errorf("sum %s again, %v", sum, err)
		}
		seen[sum] = true
		if err := pinned(tree, "kafka-4.1.0"); err == nil {
			t.Error("a tree of other contents passes")
		}
	}
	// What versions are fetched have pins.
	for _, name := range []string{servers.KafkaFolder, servers.DebeziumFolder, "mongodb-" + servers.MongoVersion} {
		if pins()[name] == "" {
			t.Errorf("%s has no pin", name)
		}
	}
	cache, err := servers.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cache, servers.KafkaFolder)); err == nil {
		if err := pinned(filepath.Join(cache, servers.KafkaFolder), servers.KafkaFolder); err != nil {
			t.Error(err)
		}
	}
}
