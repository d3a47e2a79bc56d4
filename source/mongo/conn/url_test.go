package conn

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A connection string that cannot be read is reported without what it holds.
func TestUnreadableURL(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"mongodb", "mongodb+srv"} {
		_, err := Config{Config: source.Config{URL: scheme + "://u:p%zzword@host.invalid/db", Tables: []outbox.Table{{Name: "outbox"}}}}.Database()
		if err == nil || strings.Contains(err.Error(), "%!w") || strings.Contains(err.Error(), "zzword") || !strings.Contains(err.Error(), "%XX") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
