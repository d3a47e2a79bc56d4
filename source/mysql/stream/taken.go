package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

var _ source.Taker = (*Source)(nil)

// TakeOver implements source.Taker. The position is the end of the last transaction that the other reader has read to its end: of one that it was in the
// middle of, all comes again.
func (s *Source) TakeOver(ctx context.Context) (source.Snapshot, error) {
	left := s.cfg.LeftOff
	if left.Position == "" {
		return nil, nil
	}
	at, lost, err := s.takeOver(ctx, left)
	if errors.Is(err, source.ErrGap) {
		lost, err = err.Error(), nil
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("take over from %s: %w", left.Position, err)
	case lost != "":
		return nil, fmt.Errorf("take over from %s: %s: %s: %w", left.Position, lost, source.OverlapFix, source.ErrStop)
	}
	s.cfg.Logger.Info("took over where another reader of the binlog stopped", "at", left.Position, "position", at.place.String())
	return source.Taken(at.String()), nil
}

// takeOver finds the position, or why there is none.
func (s *Source) takeOver(ctx context.Context, left source.LeftOff) (at *resume, lost string, err error) {
	place, err := binlog.ParsePosition(left.Position)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", err, source.ErrStop)
	}
	id, theirs := "", (*binlog.GTIDSet)(nil)
	err = s.asked(ctx, func(conn *server.Conn) error {
		here, err := server.Inspect(ctx, conn)
		if err != nil {
			return err
		}
		id = here.ID
		if theirs, err = latest(left.GTIDs, conn.Server.MariaDB); err != nil {
			return fmt.Errorf("%w: %w", err, source.ErrStop)
		}
		lost, err = foreign(ctx, &s.cfg, conn, &resume{server: id, place: place, gtids: theirs})
		return err
	})
	if lost != "" || err != nil {
		return nil, lost, err
	}
	// Debezium's GTIDs lack a statement outside of transactions, such as DDL, that its place has passed: then the place before that one is proven.
	for try := 0; ; try++ {
		at, last, err := s.wholeBefore(ctx, id, place)
		if err != nil {
			return nil, "", err
		}
		err = s.asked(ctx, func(conn *server.Conn) (err error) {
			lost, err = skipped(ctx, conn, at, theirs)
			return err
		})
		if lost == "" || err != nil || try > 0 || last.File == 0 {
			return at, lost, err
		}
		place = last
	}
}

// asked connects for some questions.
func (s *Source) asked(ctx context.Context, ask func(*server.Conn) error) (err error) {
	conn, err := s.cfg.Connect(ctx, s.cfg.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return ask(conn)
}

// foreign says why a place cannot be one of this server's log.
func foreign(ctx context.Context, cfg *server.Config, conn *server.Conn, theirs *resume) (lost string, err error) {
	if lost, err = lostHere(ctx, cfg, conn, theirs); lost != "" || err != nil {
		return lost, err
	}
	// A reader stops where an event ends. In another server's log one hardly ends at the same place.
	_, err = conn.Texts(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN %s FROM %d LIMIT 1", quote.Text(theirs.place.FileName()), theirs.place.Pos))
	if server.Code(err) == codeBinlogEvents {
		return "no event ends there: the place is of another server's log, or the log was reset", nil
	}
	return "", err
}

// codeBinlogEvents is the code of the error ER_ERROR_WHEN_EXECUTING_COMMAND: no event begins at the place.
const codeBinlogEvents = 1220

// wholeBefore finds the last place at or before one between two transactions, and where the last transaction before it begins, if there is one in its
// file. Nothing but reading the file from its beginning tells: what is sent from the middle of a transaction has no beginning, and would be taken
// for none.
func (s *Source) wholeBefore(ctx context.Context, server string, place binlog.Position) (at *resume, last binlog.Position, err error) {
	w := &watch{cfg: &s.cfg}
	defer func() { err = errors.Join(err, w.closeSession(ctx)) }()
	if _, err := w.refresh(ctx); err != nil {
		return nil, last, err
	}
	begin := place
	begin.Pos = binlog.FirstPos
	for {
		halt := place
		halt.Pos = max(halt.Pos, begin.Pos+1) // what the file begins with tells the GTIDs
		st, err := s.readPiece(ctx, w, server, begin, halt, func(st *stream) { st.skip = halt })
		if err != nil {
			return nil, last, err
		}
		if !place.Before(st.out.done) || st.tx.begin.File == 0 {
			at, err := parseResume(st.resume())
			return at, st.tx.begin, err
		}
		if !st.tx.begin.Before(place) {
			st.tx.begin = begin
		}
		place = st.tx.begin // it was in the middle of this one
	}
}

// latest reads GTIDs of another reader, which may name a domain of MariaDB twice: the highest number counts.
func latest(text string, mariadb bool) (*binlog.GTIDSet, error) {
	if !mariadb {
		return binlog.ParseGTIDSet(text, false)
	}
	set := binlog.NewGTIDSet(true)
	read := map[string]uint64{}
	for part := range strings.SplitSeq(text, ",") {
		one, err := binlog.ParseGTIDSet(part, true)
		if err != nil {
			return nil, err
		}
		for domain, seq := range one.Domains() {
			if seq >= read[domain] {
				read[domain] = seq
				set, err = binlog.ParseGTIDSet(strings.TrimPrefix(textOrNone(set)+","+part, ","), true)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

// skipped says that a place comes after transactions that the other reader had not read, as its GTIDs show.
func skipped(ctx context.Context, conn *server.Conn, at *resume, theirs *binlog.GTIDSet) (string, error) {
	if theirs.Empty() || at.gtids.Empty() {
		return "", nil
	}
	const lacks = "the GTIDs that belong to it lack transactions that stand before that place in this server's log"
	if conn.Server.MariaDB {
		read := map[string]uint64{}
		for domain, seq := range theirs.Domains() {
			read[domain] = seq
		}
		for domain, seq := range at.gtids.Domains() {
			if seq > read[domain] {
				return lacks, nil
			}
		}
		return "", nil
	}
	rows, err := conn.Texts(ctx, "SELECT GTID_SUBSET("+quote.Text(at.gtids.String())+", "+quote.Text(theirs.String())+")")
	if err != nil {
		return "", fmt.Errorf("compare gtids: %w", err)
	}
	if rows[0][0] != "1" {
		return lacks, nil
	}
	return "", nil
}
