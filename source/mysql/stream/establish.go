package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/snapshot"
)

// A logSnapshot is the state of the tables at a place in the log.
type logSnapshot struct {
	*snapshot.Tables
	resume resume
}

var _ source.Snapshot = (*logSnapshot)(nil)

// snapshotSettings let a sweep last as long as it lasts.
const snapshotSettings = "SET net_write_timeout = 3600, group_concat_max_len = 1048576, transaction_isolation = 'REPEATABLE-READ'"

// Establish implements source.Source.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	snap, err := s.establish(ctx)
	if err != nil {
		return nil, fmt.Errorf("establish a position in the binlog: %w", err)
	}
	s.cfg.Logger.Info("established a position in the log", "position", snap.resume.place.String(), "server", snap.resume.server)
	return snap, nil
}

func (s *Source) establish(ctx context.Context) (_ *logSnapshot, err error) {
	conn, err := s.cfg.Connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	snap := &logSnapshot{Tables: snapshot.Of(&s.cfg, conn, "")}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close(ctx))
		}
	}()
	server, err := server.Inspect(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Logged(ctx, conn); err != nil { // before a mark that never comes
		return nil, err
	}
	settings := snapshotSettings
	if conn.Server.MariaDB && !conn.Server.AtLeast(11, 1, 0) {
		settings = "SET net_write_timeout = 3600, group_concat_max_len = 1048576, tx_isolation = 'REPEATABLE-READ'"
	}
	if _, err := conn.Exec(ctx, settings); err != nil {
		return nil, err
	}
	snap.resume.server = server.ID
	if conn.Server.MariaDB {
		err = s.exact(ctx, conn, snap)
	} else {
		err = s.matched(ctx, conn, snap)
	}
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// exact opens a snapshot whose place in the log the server tells, as MariaDB does.
func (s *Source) exact(ctx context.Context, conn *server.Conn, snap *logSnapshot) error {
	if _, err := conn.Exec(ctx, snapshot.Begin); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	rows, err := conn.Texts(ctx, "SHOW STATUS WHERE variable_name IN ('binlog_snapshot_file', 'binlog_snapshot_position')")
	if err != nil {
		return fmt.Errorf("ask for the snapshot's place: %w", err)
	}
	values := map[string]string{}
	for _, r := range rows {
		values[strings.ToLower(r[0])] = r[1]
	}
	file, pos := values["binlog_snapshot_file"], values["binlog_snapshot_position"]
	if snap.resume.place, err = binlog.ParsePosition(file + ":" + pos); err != nil {
		return fmt.Errorf("ask for the snapshot's place: %w", err)
	}
	gtids, err := conn.Texts(ctx, "SELECT COALESCE(BINLOG_GTID_POS("+quote.Text(file)+", "+pos+"), '')")
	if err != nil {
		return fmt.Errorf("ask for the snapshot's gtids: %w", err)
	}
	if snap.resume.gtids, err = binlog.ParseGTIDSet(gtids[0][0], true); err != nil {
		return err
	}
	found, err := s.scan(ctx, &snap.resume, snap.resume.place)
	if err != nil {
		return err
	}
	snap.resume.created = found.begun
	return nil
}

// matched opens a snapshot and finds the place that it belongs to. The log is ahead of what is visible: so first comes a place,
// then a transaction of our own. Once that is committed everything before the place is visible, because transactions become
// visible in the log's order; then the snapshot is opened. What the log holds between the place and its end after that
// is in the snapshot, or not, as the rows tell: up to the last transaction with a row that the snapshot shows.
func (s *Source) matched(ctx context.Context, conn *server.Conn, snap *logSnapshot) error {
	before, err := server.ReadLogEnd(ctx, conn)
	if err != nil {
		return err
	}
	if err := mark(ctx, &s.cfg, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, snapshot.Begin); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	after, err := server.ReadLogEnd(ctx, conn)
	if err != nil {
		return err
	}
	snap.resume.place = before.Position
	if snap.resume.gtids, err = binlog.ParseGTIDSet(before.GTIDs, false); err != nil {
		return err
	}
	found, err := s.scan(ctx, &snap.resume, after.Position)
	if err != nil {
		return err
	}
	snap.resume.created = found.begun
	last := -1
	for _, info := range found.tables {
		n, err := snap.LastVisible(ctx, info, found.rows)
		if err != nil {
			return err
		}
		last = max(last, n)
	}
	if last < 0 {
		return nil
	}
	for _, end := range found.ends {
		if end.after > last {
			r, err := parseResume(end.resume)
			if err != nil {
				return err
			}
			snap.resume = *r
			return nil
		}
	}
	return fmt.Errorf("find the snapshot's place: the log ends before its rows: %w", binlog.ErrProtocol)
}

// mark commits a transaction that leaves nothing behind. It writes to the only table of which the relay may delete rows.
func mark(ctx context.Context, c *server.Config, s *server.Conn) error {
	table := "tailbox_parked"
	if c.Schema != "" {
		table = quote.Ident(c.Schema) + "." + table
	}
	name := quote.Text("establishing " + randomUUID())
	for _, sql := range []string{"BEGIN", "INSERT INTO " + table + " (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic) VALUES (" +
		name + ", '', '', '', '', '', 'dropped', FALSE, FALSE, '', '')",
		"DELETE FROM " + table + " WHERE pipeline = " + name, "COMMIT"} {
		if _, err := s.Exec(ctx, sql); err != nil {
			return fmt.Errorf("write a mark into the log: %w", err)
		}
	}
	return nil
}

// A scanned is what a piece of the log holds.
type scanned struct {
	begun  string // created of its first file
	tables []*catalog.Table
	rows   []*outbox.Message
	ends   []scannedEnd
}

// A scannedEnd is the end of a transaction, after so many rows.
type scannedEnd struct {
	after  int
	resume source.Resume
}

// maxScanned bounds what a piece of the log may hold: more came while a snapshot was opened than can be looked at.
const maxScanned = 200_000

// scan reads the log from a place to another.
func (s *Source) scan(ctx context.Context, from *resume, to binlog.Position) (_ *scanned, err error) {
	w := &watch{cfg: &s.cfg}
	defer func() { err = errors.Join(err, w.closeSession(ctx)) }()
	cat, err := w.refresh(ctx)
	if err != nil {
		return nil, err
	}
	found := &scanned{tables: cat.tables}
	st, err := s.readPiece(ctx, w, from.server, from.place, to, func(st *stream) {
		st.created = from.created
		if from.gtids != nil {
			st.gtids, _ = binlog.ParseGTIDSet(textOrNone(from.gtids), from.gtids.MariaDB) // a copy: reading adds to it
		}
		st.out.markEvery = 1
		st.emit = func(_ context.Context, b *source.Batch) error {
			n := len(found.rows)
			found.rows = append(found.rows, b.Messages...)
			for _, m := range b.Marks {
				found.ends = append(found.ends, scannedEnd{n + m.N, m.Resume})
			}
			if b.Resume != "" {
				found.ends = append(found.ends, scannedEnd{len(found.rows), b.Resume})
			}
			if len(found.rows) > maxScanned {
				return fmt.Errorf("more than %d rows came while the snapshot was opened: try again", maxScanned)
			}
			return nil
		}
	})
	if err != nil {
		return nil, err
	}
	if err := st.flush(ctx, true); err != nil {
		return nil, err
	}
	found.begun = st.begun
	return found, nil
}

func textOrNone(g *binlog.GTIDSet) string {
	if g.Empty() {
		return ""
	}
	return g.String()
}

// Resume implements source.Snapshot.
func (s *logSnapshot) Resume() source.Resume { return source.Resume(s.resume.String()) }
