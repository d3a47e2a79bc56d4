package setup_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/test/servers"
)

// Check says that everybody may write messages without a table, and its own statement ends that.
func TestCheckWhoMayWriteMessages(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, version), nil, pgtest.Shape("debezium", "outbox"))
			told := func() (fix string) {
				for _, f := range r.Check() {
					if strings.Contains(f.What, "pg_logical_emit_message") {
						fix = f.Fix
					}
				}
				return fix
			}
			if fix := told(); fix != "" {
				t.Errorf("without source.messages: %s", fix)
			}
			r.Cfg.Messages = "tailbox"
			revoke, _, found := strings.Cut(told(), "; ")
			if !found || !strings.HasPrefix(revoke, "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean,text,") {
				t.Fatalf("fix: %q", revoke)
			}
			r.Exec(revoke)
			if fix := told(); fix != "" {
				t.Errorf("after %s: %s", revoke, fix)
			}
		})
	}
}
