package stream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A resume is a parsed source.Resume: "file:position created server gtids", and where transactions are prepared (XA) that
// have not ended, " from=file:position".
//
// At the same server reading goes on by file and position, which are exact whatever happened to GTIDs. At another one, after
// a failover, it goes on by the GTIDs.
type resume struct {
	place binlog.Position
	// created is the time at which the file was begun and the server_id of who began it, "time.id": a file of the same name
	// after RESET BINARY LOGS, or of a server restored from a backup, is another one.
	created string
	// server is the source id: the places are those of this server's log.
	server string
	// gtids of all transactions before place; nil if the server has none.
	gtids *binlog.GTIDSet
	// from, if set, is an earlier place, from which on the log holds prepared transactions that end after place.
	from binlog.Position
}

// parseResume reads the text form.
func parseResume(r source.Resume) (*resume, error) {
	fields := strings.Split(string(r), " ")
	if len(fields) < 4 || len(fields) > 5 {
		return nil, fmt.Errorf("resume %q is not one of a binlog", r)
	}
	p, err := binlog.ParsePosition(fields[0])
	if err != nil {
		return nil, fmt.Errorf("resume %q: %w", r, err)
	}
	parsed := &resume{place: p, created: fields[1], server: fields[2]}
	if fields[3] != "-" {
		// MariaDB's source ids have no dots and GTIDs no colons.
		if parsed.gtids, err = binlog.ParseGTIDSet(fields[3], !strings.Contains(fields[3], ":")); err != nil {
			return nil, fmt.Errorf("resume %q: %w", r, err)
		}
	}
	if len(fields) == 5 {
		text, ok := strings.CutPrefix(fields[4], "from=")
		if parsed.from, err = binlog.ParsePosition(text); err != nil || !ok {
			return nil, fmt.Errorf("resume %q is not one of a binlog", r)
		}
	}
	return parsed, nil
}

// String is the text form.
func (r *resume) String() string { return string(r.append(nil)) }

func (r *resume) append(b []byte) []byte {
	b = strconv.AppendUint(append(r.place.AppendFileName(b), ':'), r.place.Pos, 10)
	b = append(append(b, ' '), r.created...)
	b = append(append(b, ' '), r.server...)
	b = r.gtids.Append(append(b, ' '))
	if r.from.File != 0 {
		b = strconv.AppendUint(append(r.from.AppendFileName(append(b, " from="...)), ':'), r.from.Pos, 10)
	}
	return b
}
