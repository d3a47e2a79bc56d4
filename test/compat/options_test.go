package compat

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestOptionsAreDebeziums compares the list of options that the import takes for known with Debezium's own. After an update of Debezium the list is
// to be written anew.
func TestOptionsAreDebeziums(t *testing.T) {
	t.Parallel()
	want := java(t, "Options.java", nil)
	got, err := os.ReadFile(filepath.Join("..", "..", "internal", "debezium", "options.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("internal/debezium/options.txt differs from Debezium's options: write them there:\n%s", want)
	}
}
