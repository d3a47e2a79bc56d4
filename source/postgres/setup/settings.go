package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store/report"
)

// Settings reads the version of the server, and its settings that logical decoding and sessions of the relay depend on, as they are for a session
// that sets none itself.
func Settings(ctx context.Context, cfg session.Config) (found []report.Setting, err error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	rows, err := conn.Query(ctx, `SELECT 'version', version() UNION ALL SELECT 'in_recovery', pg_is_in_recovery()::text UNION ALL
		(SELECT name, concat_ws(' ', coalesce(reset_val, setting), unit) FROM pg_settings WHERE name = ANY ($1) ORDER BY name)`,
		[]string{"effective_wal_level", "wal_level", "max_replication_slots", "max_wal_senders", "max_slot_wal_keep_size", "idle_replication_slot_timeout", "wal_keep_size",
			"wal_sender_timeout", "logical_decoding_work_mem", "sync_replication_slots", "synchronized_standby_slots", "hot_standby_feedback", "track_commit_timestamp",
			"max_prepared_transactions", "max_connections", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
			"default_transaction_read_only", "default_transaction_isolation", "synchronous_commit", "fsync", "server_encoding", "password_encryption", "ssl"})
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[report.Setting])
	}
	if err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	return found, nil
}
