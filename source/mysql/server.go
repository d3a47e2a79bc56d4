package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A serverInfo is what a server says about itself and its binlog.
type serverInfo struct {
	// id is the source id: MySQL's server_uuid; MariaDB, which has none, is named by gtid_domain_id and server_id.
	id       string
	serverID string
	// gtids: the server numbers its transactions.
	gtids    bool
	checksum string
}

// sourceID names the server, as Examined and Loaded have it.
func sourceID(ctx context.Context, s *session) (string, error) {
	ask := "SELECT @@global.server_uuid"
	if s.server.mariadb {
		ask = "SELECT CONCAT(@@global.gtid_domain_id, '-', @@global.server_id)"
	}
	rows, err := s.texts(ctx, ask)
	if err != nil {
		return "", fmt.Errorf("ask the server who it is: %w", err)
	}
	return rows[0][0], nil
}

// variables reads global variables; those that this server does not have are left out.
func variables(ctx context.Context, s *session, names ...string) (map[string]string, error) {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quoteLiteral(n)
	}
	rows, err := s.texts(ctx, "SHOW GLOBAL VARIABLES WHERE variable_name IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return nil, fmt.Errorf("read settings of the server: %w", err)
	}
	values := make(map[string]string, len(rows))
	for _, r := range rows {
		values[strings.ToLower(r[0])] = r[1]
	}
	return values, nil
}

// A requirement is a setting without which the log lacks something.
type requirement struct {
	name  string
	good  []string
	what  string
	cure  string
	level store.Level
}

// requirements are what the binlog needs, worst first.
func requirements(mariadb bool) []requirement {
	restart := "set log_bin in the server's configuration, and restart it"
	need := []requirement{
		{"log_bin", []string{"ON", "1"}, "the server keeps no binlog", restart, store.Problem},
		{"binlog_format", []string{"ROW"}, "the log holds statements instead of rows", "SET GLOBAL binlog_format = 'ROW' (also in the configuration), " +
			"and let applications connect anew", store.Problem},
		{"binlog_row_image", []string{"FULL"}, "the log leaves columns out", "SET GLOBAL binlog_row_image = 'FULL' (also in the configuration), " +
			"and let applications connect anew", store.Problem},
		{"binlog_row_metadata", []string{"FULL"}, "the log does not name columns: after a table was altered, older rows cannot be read",
			"SET GLOBAL binlog_row_metadata = 'FULL' (also in the configuration)", store.Warning},
		{"sync_binlog", []string{"1"}, "after a crash of the server's machine, messages may have been delivered of transactions that it lost",
			"SET GLOBAL sync_binlog = 1 (also in the configuration)", store.Warning},
		{"innodb_flush_log_at_trx_commit", []string{"1"}, "after a crash of the server's machine, what was committed may be lost",
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1 (also in the configuration)", store.Warning},
	}
	if !mariadb {
		need = append(need, requirement{"binlog_order_commits", []string{"ON", "1"}, "transactions become visible in another order than the log's, so that " +
			"no snapshot belongs to a position in it", "SET GLOBAL binlog_order_commits = ON (also in the configuration)", store.Problem},
			requirement{"gtid_mode", []string{"ON"}, "without GTIDs reading cannot go on at another server after a failover: the tables are swept then",
				"turn gtid_mode and enforce_gtid_consistency ON, step by step as the manual says", store.Info})
	}
	return need
}

// inspect asks a server who it is, and refuses one whose log cannot be used.
func inspect(ctx context.Context, s *session) (*serverInfo, error) {
	id, err := sourceID(ctx, s)
	if err != nil {
		return nil, err
	}
	info := &serverInfo{id: id, gtids: s.server.mariadb}
	names := []string{"read_only", "super_read_only", "gtid_mode", "server_id", "binlog_checksum"}
	need := requirements(s.server.mariadb)
	for _, r := range need {
		names = append(names, r.name)
	}
	values, err := variables(ctx, s, names...)
	if err != nil {
		return nil, err
	}
	for _, v := range []string{values["read_only"], values["super_read_only"]} {
		if v != "" && v != "OFF" && v != "0" {
			return nil, errors.New("the server is read-only: it is a replica, or being switched over: source.url must lead to the primary")
		}
	}
	for _, r := range need {
		if value, ok := values[r.name]; ok && r.level == store.Problem && !slices.Contains(r.good, value) {
			return nil, fmt.Errorf("%s is %s: %s: %s: %w", r.name, value, r.what, r.cure, source.ErrStop)
		}
	}
	info.gtids = info.gtids || values["gtid_mode"] == "ON"
	info.serverID, info.checksum = values["server_id"], values["binlog_checksum"]
	return info, nil
}

// severalWriters tells whether the server is one of several that take writes: locks and open transactions of one are unknown to the others.
func severalWriters(ctx context.Context, s *session) (bool, error) {
	values, err := variables(ctx, s, "wsrep_on", "group_replication_single_primary_mode", "group_replication_group_name")
	if err != nil {
		return false, err
	}
	return values["wsrep_on"] == "ON" || values["group_replication_group_name"] != "" && values["group_replication_single_primary_mode"] == "OFF", nil
}
