package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
)

// A place is a place in one server's binlog. Places of one server order all its transactions, and never change: they
// are what positions (outbox.Position) are made of, as Postgres' are of LSNs.
type place struct {
	// base is the name of the files without their number, such as "binlog.". File is the number.
	base string
	file uint64
	pos  uint64
}

// A file's number takes the upper bits of an ordinal, the position in it the lower ones. Files are far below 64 GiB: the
// server's own positions have 32 bits.
const (
	posBits = 36
	maxFile = 1<<(64-posBits) - 1
	maxPos  = 1<<posBits - 1
)

// ordinal is the place as one number. A transaction's Position.Commit is the ordinal of the end of the event that opens it, so
// the ordinal of the log's end lies after all that is in the log, and before all that will be.
func (p place) ordinal() uint64 { return p.file<<posBits | p.pos }

// before compares places of one server.
func (p place) before(q place) bool { return p.ordinal() < q.ordinal() }

// name is the file's name.
func (p place) name() string { return string(p.appendName(nil)) }

func (p place) appendName(b []byte) []byte {
	b = append(b, p.base...)
	start := len(b)
	b = strconv.AppendUint(b, p.file, 10)
	for len(b)-start < 6 { // the server's own form
		b = append(b[:start], append([]byte{'0'}, b[start:]...)...)
	}
	return b
}

// String is the text form, file:position. It is also the text of a barrier.
func (p place) String() string {
	return string(strconv.AppendUint(append(p.appendName(nil), ':'), p.pos, 10))
}

// parseFile reads a file's name into a place at its beginning.
func parseFile(name string) (place, error) {
	dot := strings.LastIndexByte(name, '.')
	n, err := strconv.ParseUint(name[dot+1:], 10, 64)
	if dot < 0 || err != nil || n == 0 || n > maxFile {
		return place{}, fmt.Errorf("binlog file %q is not of the form name.number", name)
	}
	return place{base: name[:dot+1], file: n, pos: firstPos}, nil
}

// firstPos is where the first event of a file stands.
const firstPos = 4

// parsePlace reads the text form.
func parsePlace(text string) (place, error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return place{}, fmt.Errorf("place %q in the binlog is not of the form file:position", text)
	}
	p, err := parseFile(text[:colon])
	if err != nil {
		return place{}, err
	}
	if p.pos, err = strconv.ParseUint(text[colon+1:], 10, 64); err != nil || p.pos < firstPos || p.pos > maxPos {
		return place{}, fmt.Errorf("place %q in the binlog is not of the form file:position", text)
	}
	return p, nil
}

// A logEnd is where a server's binlog ends.
type logEnd struct {
	place
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
	if end.place, err = parsePlace(rows[0][0] + ":" + rows[0][1]); err != nil {
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
	place place // its beginning
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
		if files[i].place, err = parseFile(r[0]); err != nil {
			return nil, fmt.Errorf("list binlog files: %w", err)
		}
		if files[i].size, err = strconv.ParseUint(r[1], 10, 64); err != nil {
			return nil, fmt.Errorf("list binlog files: size of %s: %w", r[0], err)
		}
	}
	return files, nil
}

// microTime converts microseconds since 1970.
func microTime(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }
