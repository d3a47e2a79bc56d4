package compat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestOptionsAreDebeziums compares the list of options that the import takes for known with Debezium's own. After an update of Debezium the list is
// to be written anew.
func TestOptionsAreDebeziums(t *testing.T) {
	t.Parallel()
	lib := servers.Debezium(t)
	cmd := exec.CommandContext(t.Context(), "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(lib, "*"), filepath.Join("testdata", "Options.java"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("run Debezium: %v\n%s", err, stderr.String())
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "internal", "debezium", "options.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("internal/debezium/options.txt differs from Debezium's options: write them there:\n%s", want)
	}
}
