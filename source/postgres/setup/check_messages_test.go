package setup_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Check names the type that a column has, and how content of a large object comes into the row.
func TestCheckNamesWrongTypes(t *testing.T) {
	t.Parallel()
	table := outbox.Table{Schema: "public", Name: "events", OnDelivered: outbox.Delete, Columns: outbox.Columns{ID: "id", Payload: "payload", Headers: "meta", CreatedAt: "at"}}
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
	r.Exec("CREATE DOMAIN lo AS oid; CREATE TABLE events (id bigint PRIMARY KEY, payload oid NOT NULL, meta lo, at bigint)")
	problems := pgtest.Levels(r.Check(), check.Problem)
	for _, want := range []string{
		"column payload of table public.events is an oid, a reference to a large object, whose content is not in the log => " +
			`ALTER TABLE "public"."events" ALTER COLUMN "payload" TYPE bytea USING lo_get("payload"), and map the field as bytea in the application`,
		`leave it out (columns: {headers: null}), or ALTER TABLE "public"."events" ALTER COLUMN "meta" TYPE bytea USING lo_get("meta")`,
		"column at of table public.events is not a timestamp: its type is bigint => leave it out (columns: {created_at: null}), or ALTER",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems lack %q:\n%s", want, problems)
		}
	}
}

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
