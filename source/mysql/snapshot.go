package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A tableSnapshot is the state of the tables at one moment. It is a read-only transaction on a connection of its own. Who makes one knows its
// position.
type tableSnapshot struct {
	cfg    *config
	conn   *session
	sweeps []sweep
	// within, where set, is a further condition of all rows, of which t is one: the position is in the sequence, not in the log.
	within string
}

// snapshotOf is the snapshot that a connection's transaction shows. The caller has begun it, or is about to.
func snapshotOf(cfg *config, conn *session, within string) *tableSnapshot {
	return &tableSnapshot{cfg: cfg, conn: conn, within: within}
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	rows  *rowReader
	where string
}

// A logSnapshot is the state of the tables at a place in the log.
type logSnapshot struct {
	*tableSnapshot
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
	conn, err := s.cfg.connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	snap := &logSnapshot{tableSnapshot: snapshotOf(&s.cfg, conn, "")}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.close(ctx))
		}
	}()
	server, err := inspect(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.logged(ctx, conn); err != nil { // before a mark that never comes
		return nil, err
	}
	settings := snapshotSettings
	if conn.server.mariadb && !conn.server.atLeast(11, 1, 0) {
		settings = "SET net_write_timeout = 3600, group_concat_max_len = 1048576, tx_isolation = 'REPEATABLE-READ'"
	}
	if _, err := conn.exec(ctx, settings); err != nil {
		return nil, err
	}
	snap.resume.server = server.id
	if conn.server.mariadb {
		err = s.exact(ctx, conn, snap)
	} else {
		err = s.matched(ctx, conn, snap)
	}
	if err != nil {
		return nil, err
	}
	return snap, nil
}

const openSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

// exact opens a snapshot whose place in the log the server tells, as MariaDB does.
func (s *Source) exact(ctx context.Context, conn *session, snap *logSnapshot) error {
	if _, err := conn.exec(ctx, openSnapshot); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	rows, err := conn.texts(ctx, "SHOW STATUS WHERE variable_name IN ('binlog_snapshot_file', 'binlog_snapshot_position')")
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
	gtids, err := conn.texts(ctx, "SELECT COALESCE(BINLOG_GTID_POS("+quoteLiteral(file)+", "+pos+"), '')")
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
func (s *Source) matched(ctx context.Context, conn *session, snap *logSnapshot) error {
	before, err := readLogEnd(ctx, conn)
	if err != nil {
		return err
	}
	if err := mark(ctx, &s.cfg, conn); err != nil {
		return err
	}
	if _, err := conn.exec(ctx, openSnapshot); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	after, err := readLogEnd(ctx, conn)
	if err != nil {
		return err
	}
	snap.resume.place = before.Position
	if snap.resume.gtids, err = binlog.ParseGTIDSet(before.gtids, false); err != nil {
		return err
	}
	found, err := s.scan(ctx, &snap.resume, after.Position)
	if err != nil {
		return err
	}
	snap.resume.created = found.begun
	last := -1
	for _, info := range found.tables {
		n, err := snap.lastVisible(ctx, info, found.rows)
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
func mark(ctx context.Context, c *config, s *session) error {
	table := "tailbox_parked"
	if c.Schema != "" {
		table = quoteIdent(c.Schema) + "." + table
	}
	name := quoteLiteral("establishing " + randomUUID())
	for _, sql := range []string{"BEGIN", "INSERT INTO " + table + " (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic) VALUES (" +
		name + ", '', '', '', '', '', 'dropped', FALSE, FALSE, '', '')",
		"DELETE FROM " + table + " WHERE pipeline = " + name, "COMMIT"} {
		if _, err := s.exec(ctx, sql); err != nil {
			return fmt.Errorf("write a mark into the log: %w", err)
		}
	}
	return nil
}

// A scanned is what a piece of the log holds.
type scanned struct {
	begun  string // created of its first file
	tables []*tableInfo
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
	d, err := s.openDump(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if d.server.id != from.server {
		return nil, fmt.Errorf("the server was %s and is %s now", from.server, d.server.id)
	}
	if err := s.start(ctx, d, from.place); err != nil {
		return nil, err
	}
	found := &scanned{tables: cat.tables}
	begin := *from
	begin.gtids, _ = binlog.ParseGTIDSet(textOrNone(from.gtids), d.session.server.mariadb) // a copy: reading adds to it
	st := newStream(s, d, w, &begin)
	st.wire, st.halt, st.markEvery = d.wire, to, 1
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
	release := context.AfterFunc(ctx, st.wire.Interrupt)
	err = st.read(ctx)
	release()
	if errors.Is(err, errHalted) {
		err = st.flush(ctx, true)
	}
	if st.zstd != nil {
		st.zstd.Close()
	}
	if err == nil {
		err = ctx.Err()
	}
	found.begun = st.begun
	return found, err
}

func textOrNone(g *binlog.GTIDSet) string {
	if g.Empty() {
		return ""
	}
	return g.String()
}

// lastVisible is the index of the last of the rows of a table that the snapshot shows, -1 for none.
func (s *tableSnapshot) lastVisible(ctx context.Context, info *tableInfo, rows []*outbox.Message) (int, error) {
	const chunk = 500
	last := -1
	var list string
	ids := map[string]int{}
	ask := func() error {
		if list == "" {
			return nil
		}
		found, err := s.conn.texts(ctx, "SELECT "+info.idText("t")+" FROM "+tableName(&info.Table)+" t WHERE t."+quoteIdent(info.Columns.ID)+" IN ("+list+")")
		for _, r := range found {
			if n, ok := ids[r[0]]; ok {
				last = max(last, n)
			}
		}
		list = ""
		clear(ids)
		return wrap("look for rows in the snapshot", err)
	}
	for i, m := range rows {
		if m.Table != info.String() {
			continue
		}
		literal, err := info.idLiteral(m.ID)
		if err != nil {
			return 0, err
		}
		if list != "" {
			list += ", "
		}
		list += literal
		ids[m.ID] = i
		if len(ids) == chunk {
			if err := ask(); err != nil {
				return 0, err
			}
		}
	}
	return last, ask()
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Resume implements source.Snapshot.
func (s *logSnapshot) Resume() source.Resume { return source.Resume(s.resume.String()) }

// Close implements source.Snapshot.
func (s *tableSnapshot) Close(ctx context.Context) error { return s.conn.close(ctx) }
