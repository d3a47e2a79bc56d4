package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/store/check"
)

// IsOn reports whether a variable has a value that means ON.
func IsOn(value string) bool { return value != "" && value != "OFF" && value != "0" }

// ReadOnly reports whether read_only or super_read_only has a value that means ON.
func ReadOnly(values map[string]string) bool {
	return IsOn(values["read_only"]) || IsOn(values["super_read_only"])
}

// Account is the name of a session's account, as GRANT has it.
func Account(ctx context.Context, s *Conn) (string, error) {
	who, err := s.Texts(ctx, "SELECT CURRENT_USER()")
	if err != nil {
		return "", err
	}
	user, host, ok := strings.Cut(who[0][0], "@")
	if !ok {
		return who[0][0], nil
	}
	return quote.Text(user) + "@" + quote.Text(host), nil
}

// A Info is what a server says about itself and its binlog.
type Info struct {
	// ID is the source id: MySQL's server_uuid; MariaDB, which has none, is named by gtid_domain_id and server_id.
	ID       string
	ServerID string
	// GTIDs: the server numbers its transactions.
	GTIDs    bool
	checksum string
}

// SourceID names the server, as Examined and Loaded have it.
func SourceID(ctx context.Context, s *Conn) (string, error) {
	ask := "SELECT @@global.server_uuid"
	if s.Server.MariaDB {
		ask = "SELECT CONCAT(@@global.gtid_domain_id, '-', @@global.server_id)"
	}
	rows, err := s.Texts(ctx, ask)
	if err != nil {
		return "", fmt.Errorf("ask the server who it is: %w", err)
	}
	return rows[0][0], nil
}

// Variables reads global variables; those that this server does not have are left out.
func Variables(ctx context.Context, s *Conn, names ...string) (map[string]string, error) {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote.Text(n)
	}
	rows, err := s.Texts(ctx, "SHOW GLOBAL VARIABLES WHERE variable_name IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return nil, fmt.Errorf("read settings of the server: %w", err)
	}
	values := make(map[string]string, len(rows))
	for _, r := range rows {
		values[strings.ToLower(r[0])] = r[1]
	}
	return values, nil
}

// A Requirement is a setting without which the log lacks something.
type Requirement struct {
	Name  string
	Good  []string
	What  string
	Fix   string
	Level check.Level
}

// Requirements are what the binlog needs, worst first.
func Requirements(mariadb bool) []Requirement {
	restart := "set log_bin in the server's configuration, and restart it"
	need := []Requirement{
		{"log_bin", []string{"ON", "1"}, "the server keeps no binlog", restart, check.Problem},
		{"binlog_format", []string{"ROW"}, "the log holds statements instead of rows", "SET GLOBAL binlog_format = 'ROW' (also in the configuration), " +
			"and let applications connect anew", check.Problem},
		{"binlog_row_image", []string{"FULL"}, "the log leaves columns out", "SET GLOBAL binlog_row_image = 'FULL' (also in the configuration), " +
			"and let applications connect anew", check.Problem},
		{"binlog_row_metadata", []string{"FULL"}, "the log does not name columns: after a table was altered, older rows cannot be read",
			"SET GLOBAL binlog_row_metadata = 'FULL' (also in the configuration)", check.Warning},
		{"sync_binlog", []string{"1"}, "after a crash of the server's machine, messages may have been delivered of transactions that it lost",
			"SET GLOBAL sync_binlog = 1 (also in the configuration)", check.Warning},
		{"innodb_flush_log_at_trx_commit", []string{"1"}, "after a crash of the server's machine, what was committed may be lost",
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1 (also in the configuration)", check.Warning},
	}
	if !mariadb {
		need = append(need, Requirement{"binlog_order_commits", []string{"ON", "1"}, "transactions become visible in another order than the log's, so that " +
			"no snapshot belongs to a position in it", "SET GLOBAL binlog_order_commits = ON (also in the configuration)", check.Problem},
			Requirement{"gtid_mode", []string{"ON"}, "without GTIDs reading cannot go on at another server after a failover: the tables are swept then",
				"turn gtid_mode and enforce_gtid_consistency ON, step by step as the manual says", check.Info})
	}
	return need
}

// Inspect asks a server who it is, and refuses one whose log cannot be used.
func Inspect(ctx context.Context, s *Conn) (*Info, error) {
	id, err := SourceID(ctx, s)
	if err != nil {
		return nil, err
	}
	info := &Info{ID: id, GTIDs: s.Server.MariaDB}
	names := []string{"read_only", "super_read_only", "gtid_mode", "server_id", "binlog_checksum"}
	need := Requirements(s.Server.MariaDB)
	for _, r := range need {
		names = append(names, r.Name)
	}
	values, err := Variables(ctx, s, names...)
	if err != nil {
		return nil, err
	}
	if ReadOnly(values) {
		return nil, ErrReadOnly
	}
	for _, r := range need {
		if value, ok := values[r.Name]; ok && r.Level == check.Problem && !slices.Contains(r.Good, value) {
			return nil, fmt.Errorf("%s is %s: %s: %s: %w", r.Name, value, r.What, r.Fix, source.ErrStop)
		}
	}
	info.GTIDs = info.GTIDs || values["gtid_mode"] == "ON"
	info.ServerID, info.checksum = values["server_id"], values["binlog_checksum"]
	return info, nil
}

// SeveralWriters reports whether the server is one of several that take writes: locks and open transactions of one are unknown to the others.
func SeveralWriters(ctx context.Context, s *Conn) (bool, error) {
	values, err := Variables(ctx, s, "wsrep_on", "group_replication_single_primary_mode", "group_replication_group_name")
	if err != nil {
		return false, err
	}
	return values["wsrep_on"] == "ON" || values["group_replication_group_name"] != "" && values["group_replication_single_primary_mode"] == "OFF", nil
}
