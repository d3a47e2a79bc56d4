package servers_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestEnvironmentNamesTheSharedServer is not parallel: it sets the environment.
func TestEnvironmentNamesTheSharedServer(t *testing.T) {
	ctx := within(t, 3*time.Minute)
	running := servers.Postgres(t, "16")
	t.Setenv("TAILBOX_TEST_POSTGRES_URL", running.URL("postgres"))
	if got := servers.Versions(t); !slices.Equal(got, []string{"16"}) {
		t.Errorf("versions: got %v, want 16 alone", got)
	}
	// A name of its own, since the shared 17 may be started by another test.
	pg := servers.Shared(t, "the one in the environment")
	db := pg.NewDatabase(t)
	want := queryOne[int64](t, ctx, connect(t, ctx, running.SocketURL(db)), "SELECT oid::int8 FROM pg_database WHERE datname = $1", db)
	if got := queryOne[int64](t, ctx, connect(t, ctx, pg.URL(db)), "SELECT oid::int8 FROM pg_database WHERE datname = current_database()"); got != want {
		t.Errorf("database: got %d, want %d", got, want)
	}
	if pg.Addr() != running.Addr() {
		t.Errorf("address: got %s, want %s", pg.Addr(), running.Addr())
	}
	for verb, do := range map[string]func() error{
		"start": pg.Start, "stop": pg.Stop, "kill": pg.Kill, "restart": pg.Restart, "pause": pg.Pause, "resume": pg.Resume,
	} {
		if do() == nil {
			t.Errorf("%s a server that is not ours: got no error", verb)
		}
	}
}
