package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A logEnd is where a server's binlog ends.
type logEnd struct {
	binlog.Position
	// gtids are those of all transactions that have ended at the time: MySQL's executed set, MariaDB's binlog position. Some that
	// stand before place may be missing, for they are still at their commit.
	gtids string
	// onlyLogged and notLogged are the databases that binlog_do_db and binlog_ignore_db name.
	onlyLogged, notLogged string
}

// readLogEnd asks where the binlog ends. What was committed and visible to anybody before the question stands before it: the
// binlog is written first. So its text is a barrier, and its ordinal comes after everything before it.
func readLogEnd(ctx context.Context, s *session) (logEnd, error) {
	command := "SHOW MASTER STATUS"
	if !s.server.mariadb && s.server.atLeast(8, 2, 0) {
		command = "SHOW BINARY LOG STATUS"
	}
	rows, err := s.texts(ctx, command)
	if err != nil {
		return logEnd{}, fmt.Errorf("ask where the binlog ends: %w", rightsCure(s, err))
	}
	if len(rows) != 1 || len(rows[0]) < 2 {
		return logEnd{}, fmt.Errorf("ask where the binlog ends: the server keeps none: set log_bin in its configuration and restart it: %w",
			source.ErrStop)
	}
	end := logEnd{}
	if end.Position, err = binlog.ParsePosition(rows[0][0] + ":" + rows[0][1]); err != nil {
		return logEnd{}, fmt.Errorf("ask where the binlog ends: %w", err)
	}
	if len(rows[0]) > 3 {
		end.onlyLogged, end.notLogged = rows[0][2], rows[0][3]
	}
	if !s.server.mariadb && len(rows[0]) > 4 {
		end.gtids = strings.Join(strings.Fields(rows[0][4]), "")
	}
	return end, nil
}

// rightsCure adds what mends a lack of privileges for questions about the binlog.
func rightsCure(s *session, err error) error {
	if code := errorCode(err); code != codeNeedPrivilege && code != codeAccessDenied {
		return err
	}
	right := "REPLICATION CLIENT"
	if s.server.mariadb {
		right = "BINLOG MONITOR"
	}
	return fmt.Errorf("%w: GRANT REPLICATION SLAVE, %s ON *.* TO this account: %w", err, right, source.ErrStop)
}

// Numbers of the server's errors.
const (
	codeAccessDenied  = 1045
	codeFatalDump     = 1236
	codeNeedPrivilege = 1227
	codeSlaveSameID   = 4052
)

// A logFile is one file of the binlog.
type logFile struct {
	place binlog.Position // its beginning
	size  uint64
}

// readLogFiles lists the files that the server still has, oldest first.
func readLogFiles(ctx context.Context, s *session) ([]logFile, error) {
	rows, err := s.texts(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, fmt.Errorf("list binlog files: %w", rightsCure(s, err))
	}
	files := make([]logFile, len(rows))
	for i, r := range rows {
		if files[i].place, err = binlog.ParseFileName(r[0]); err != nil {
			return nil, fmt.Errorf("list binlog files: %w", err)
		}
		if files[i].size, err = strconv.ParseUint(r[1], 10, 64); err != nil {
			return nil, fmt.Errorf("list binlog files: size of %s: %w", r[0], err)
		}
	}
	return files, nil
}
