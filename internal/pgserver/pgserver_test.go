package pgserver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/internal/pgserver"
)

// find returns the programs; a test that cannot have them is skipped, but not in CI.
func find(t *testing.T) string {
	t.Helper()
	bin, err := pgserver.Find(t.Context(), func(text string) { t.Log(text) })
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return bin
}

func TestServerRunsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := pgserver.Start(t.Context(), find(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var level, dir string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('wal_level'), current_setting('data_directory')").Scan(&level, &dir); err != nil {
		t.Fatal(err)
	}
	if level != "logical" {
		t.Errorf("wal_level %s, want logical", level)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("folder %s after close: %v", filepath.Dir(dir), err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the server answers after close")
	}
}

func TestStartStopsWithItsContext(t *testing.T) {
	t.Parallel()
	bin := find(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := pgserver.Start(ctx, bin); err == nil {
		t.Errorf("no error; close: %v", s.Close())
	}
}
