package docs_test

import (
	"os/exec"
	"testing"
)

// TestWorkedExample wants the patch that the pages show as an example to apply to the source as it is.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "git", "apply", "--check", "docs/design/add-a-column.patch")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("docs/design/add-a-column.patch: %v\n%s", err, out)
	}
}
