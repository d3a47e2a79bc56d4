package smtp

import (
	"bytes"
	"strings"
	"testing"
)

// A header is folded so that no line is too long, and none is empty but for spaces, which would end the headers for some readers.
func TestFieldFolds(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"words": strings.Repeat("word ", 50), "spaces": "a" + strings.Repeat(" ", 150) + "b", "only spaces behind": "a" + strings.Repeat(" ", 150),
		"spaces without end": "a" + strings.Repeat(" ", 5000) + "b", "spaces first": strings.Repeat(" ", 150) + "b", "one word": strings.Repeat("x", 3000),
	} {
		var b bytes.Buffer
		field(&b, "Subject", value)
		for _, line := range strings.Split(strings.TrimSuffix(b.String(), "\r\n"), "\r\n") {
			if strings.TrimSpace(line) == "" || len(line) > 998 {
				t.Errorf("%s: a line of %d bytes: %.80q", name, len(line), line)
			}
		}
	}
}
