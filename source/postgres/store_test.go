package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// Pipelines of one database have a lock each.
func TestPipelinesDoNotMeet(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	other := r.cfg
	other.Pipeline = "another"
	st, err := OpenStore(r.ctx, other)
	if err != nil {
		t.Fatalf("store of another pipeline: %v", err)
	}
	if err := st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	_, err := OpenStore(context.Background(), r.cfg)
	if !errors.Is(err, checkpoint.ErrNoTables) || !errors.Is(err, source.ErrStop) {
		t.Errorf("open without tables: %v, want ErrNoTables and ErrStop", err)
	}
	r.exec(tableNames("").expand(ownTables))
	r.cfg.Tables[0].Name = "nowhere"
	if _, err := OpenStore(context.Background(), r.cfg); !errors.Is(err, source.ErrStop) {
		t.Errorf("open without outbox table: %v, want ErrStop", err)
	}
}

// A database default of synchronous_commit=off must not reach the store: it would confirm what is not durable.
func TestStoreSession(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			r.exec("ALTER DATABASE " + r.db + " SET synchronous_commit = off")
			r.exec("ALTER DATABASE " + r.db + " SET default_transaction_isolation = 'serializable'")
			r.reopen()
			for name, want := range map[string]string{"synchronous_commit": "on", "idle_session_timeout": "10s",
				"idle_in_transaction_session_timeout": "10s", "statement_timeout": "0", "transaction_isolation": "read committed",
				"row_security": "off", "application_name": appName(r.cfg.Pipeline)} {
				var got string
				if err := r.st.conn.QueryRow(r.ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
		})
	}
}
