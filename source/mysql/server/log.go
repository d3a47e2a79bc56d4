package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A LogEnd is where a server's binlog ends.
type LogEnd struct {
	binlog.Position
	// GTIDs are those of all transactions that have ended at the time: MySQL's executed set, MariaDB's binlog position. Some that
	// stand before place may be missing, for they are still at their commit.
	GTIDs string
	// onlyLogged and notLogged are the databases that binlog_do_db and binlog_ignore_db name.
	onlyLogged, notLogged string
}

// ReadLogEnd asks where the binlog ends. What was committed and visible to anybody before the question stands before it: the
// binlog is written first. So its text is a barrier, and its ordinal comes after everything before it.
func ReadLogEnd(ctx context.Context, s *Conn) (LogEnd, error) {
	command := "SHOW MASTER STATUS"
	if !s.Server.MariaDB && s.Server.AtLeast(8, 2, 0) {
		command = "SHOW BINARY LOG STATUS"
	}
	rows, err := s.Texts(ctx, command)
	if err != nil {
		return LogEnd{}, fmt.Errorf("ask where the binlog ends: %w", RightsFix(s, err))
	}
	if len(rows) != 1 || len(rows[0]) < 2 {
		return LogEnd{}, fmt.Errorf("ask where the binlog ends: the server keeps none: set log_bin in its configuration and restart it: %w",
			source.ErrStop)
	}
	end := LogEnd{}
	if end.Position, err = binlog.ParsePosition(rows[0][0] + ":" + rows[0][1]); err != nil {
		return LogEnd{}, fmt.Errorf("ask where the binlog ends: %w", err)
	}
	if len(rows[0]) > 3 {
		end.onlyLogged, end.notLogged = rows[0][2], rows[0][3]
	}
	if !s.Server.MariaDB && len(rows[0]) > 4 {
		end.GTIDs = strings.Join(strings.Fields(rows[0][4]), "")
	}
	return end, nil
}

// RightsFix adds what mends a lack of privileges for questions about the binlog.
func RightsFix(s *Conn, err error) error {
	if code := Code(err); code != CodeNeedPrivilege && code != CodeAccessDenied {
		return err
	}
	right := "REPLICATION CLIENT"
	if s.Server.MariaDB {
		right = "BINLOG MONITOR"
	}
	return fmt.Errorf("%w: GRANT REPLICATION SLAVE, %s ON *.* TO this account: %w", err, right, source.ErrStop)
}

// A LogFile is one file of the binlog.
type LogFile struct {
	Start binlog.Position // its beginning
	Size  uint64
}

// ReadLogFiles lists the files that the server still has, oldest first.
func ReadLogFiles(ctx context.Context, s *Conn) ([]LogFile, error) {
	rows, err := s.Texts(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, fmt.Errorf("list binlog files: %w", RightsFix(s, err))
	}
	files := make([]LogFile, len(rows))
	for i, r := range rows {
		if files[i].Start, err = binlog.ParseFileName(r[0]); err != nil {
			return nil, fmt.Errorf("list binlog files: %w", err)
		}
		if files[i].Size, err = strconv.ParseUint(r[1], 10, 64); err != nil {
			return nil, fmt.Errorf("list binlog files: size of %s: %w", r[0], err)
		}
	}
	return files, nil
}
