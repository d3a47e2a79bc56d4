package servers_test

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

func TestPausedSynchronousStandbyHoldsCommits(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 4*time.Minute)
			primary := servers.Postgres(t, version)
			conn := connect(t, ctx, primary.URL("postgres"))
			execute(t, ctx, conn, "CREATE TABLE n (i int)")
			standby := primary.AddStandby(t)
			if err := primary.RequireStandby(ctx, standby); err != nil {
				t.Fatal(err)
			}
			execute(t, ctx, conn, "INSERT INTO n VALUES (1)")
			if err := standby.Pause(); err != nil {
				t.Fatal(err)
			}
			committed := make(chan error, 1)
			go func() {
				_, err := conn.Exec(ctx, "INSERT INTO n VALUES (2)")
				committed <- err
			}()
			select {
			case err := <-committed:
				t.Fatalf("commit while the standby is paused: returned (%v)", err)
			case <-time.After(200 * time.Millisecond):
			}
			if err := standby.Resume(); err != nil {
				t.Fatal(err)
			}
			if err := <-committed; err != nil {
				t.Fatalf("commit after the standby resumed: %v", err)
			}
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := standby.Promote(ctx); err != nil {
				t.Fatal(err)
			}
			promoted := connect(t, ctx, standby.URL("postgres"))
			if got := queryOne[int](t, ctx, promoted, "SELECT count(*) FROM n"); got != 2 {
				t.Errorf("rows on the promoted standby: got %d, want 2", got)
			}
			execute(t, ctx, promoted, "INSERT INTO n VALUES (3)")
		})
	}
}

func TestRequireStandbyCanBeTakenBack(t *testing.T) {
	t.Parallel()
	ctx := within(t, 4*time.Minute)
	primary := servers.Postgres(t, "17")
	standby := primary.AddStandby(t)
	if err := primary.RequireStandby(ctx, standby); err != nil {
		t.Fatal(err)
	}
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := primary.RequireStandby(ctx, nil); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, ctx, primary.URL("postgres"))
	execute(t, ctx, conn, "CREATE TABLE n (i int)") // hangs if it still waits
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	if got := queryOne[bool](t, ctx, connect(t, ctx, standby.URL("postgres")), "SELECT pg_is_in_recovery()"); !got {
		t.Error("standby after kill and start: got a primary")
	}
}
