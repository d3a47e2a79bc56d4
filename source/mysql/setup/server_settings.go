package setup

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/report"
)

// Settings reads the version of the server, and its settings that the binlog and sessions of the relay depend on.
func Settings(ctx context.Context, cfg server.Config) (found []report.Setting, err error) {
	conn, err := cfg.Connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	names := []string{"version", "version_comment", "binlog_expire_logs_seconds", "expire_logs_days", "binlog_row_value_options", "binlog_transaction_compression",
		"log_bin_compress", "gtid_strict_mode", "enforce_gtid_consistency", "read_only", "super_read_only", "max_allowed_packet", "net_write_timeout",
		"replica_net_timeout", "slave_net_timeout", "wait_timeout", "lock_wait_timeout", "innodb_lock_wait_timeout", "transaction_isolation", "tx_isolation",
		"character_set_server", "lower_case_table_names", "max_connections", "require_secure_transport", "sql_mode", "time_zone"}
	for _, r := range server.Requirements(conn.Server.MariaDB) {
		names = append(names, r.Name)
	}
	values, err := server.Variables(ctx, conn, names...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		found = append(found, report.Setting{Name: name, Value: values[name]})
	}
	return found, err
}
