package stream

import (
	"context"
	"errors"
	"fmt"

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
	if left == (source.LeftOff{}) {
		return nil, nil
	}
	at, err := s.takeOver(ctx, left)
	if err != nil {
		return nil, fmt.Errorf("take over from %s: %w", left.Position, err)
	}
	s.cfg.Logger.Info("took over where another reader of the binlog stopped", "at", left.Position, "position", at.place.String())
	return source.Taken(at.String()), nil
}

func (s *Source) takeOver(ctx context.Context, left source.LeftOff) (at *resume, err error) {
	conn, err := s.cfg.Connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	here, err := server.Inspect(ctx, conn)
	if err != nil {
		return nil, err
	}
	theirs := &resume{server: here.ID}
	if theirs.place, err = binlog.ParsePosition(left.Position); err == nil {
		theirs.gtids, err = binlog.ParseGTIDSet(left.GTIDs, conn.Server.MariaDB)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, source.ErrStop)
	}
	lost, err := lostHere(ctx, &s.cfg, conn, theirs)
	if err != nil {
		return nil, err
	}
	if lost == "" {
		if at, err = s.wholeBefore(ctx, here.ID, theirs.place); err != nil {
			return nil, err
		}
		lost, err = skipped(ctx, conn, at, theirs)
	}
	if err != nil || lost == "" {
		return at, err
	}
	return nil, fmt.Errorf("%s: %s: %w", lost, source.OverlapFix, source.ErrStop)
}

// wholeBefore finds the last place at or before one between two transactions. Nothing but reading its file from the beginning tells: what is sent from
// the middle of a transaction has no beginning, and would be taken for none.
func (s *Source) wholeBefore(ctx context.Context, server string, place binlog.Position) (_ *resume, err error) {
	w := &watch{cfg: &s.cfg}
	defer func() { err = errors.Join(err, w.closeSession(ctx)) }()
	if _, err := w.refresh(ctx); err != nil {
		return nil, err
	}
	begin := place
	begin.Pos = binlog.FirstPos
	for {
		st, err := s.readPiece(ctx, w, server, begin, place, func(st *stream) { st.skip = place })
		if err != nil {
			return nil, err
		}
		if !place.Before(st.out.done) {
			return parseResume(st.resume())
		}
		if place = st.tx.begin; place.File == 0 { // it was in the middle of something before the first one
			place = begin
		}
	}
}

// skipped tells that a place comes after transactions that the other reader had not read, as its GTIDs show: the log is that of another server.
func skipped(ctx context.Context, conn *server.Conn, at, theirs *resume) (string, error) {
	if at.gtids.Empty() || theirs.gtids.Empty() {
		return "", nil
	}
	other := "its GTIDs are not those of this server's log at its place: it has read another server's log"
	if conn.Server.MariaDB {
		read := map[string]uint64{}
		for domain, seq := range theirs.gtids.Domains() {
			read[domain] = seq
		}
		for domain, seq := range at.gtids.Domains() {
			if seq > read[domain] {
				return other, nil
			}
		}
		return "", nil
	}
	rows, err := conn.Texts(ctx, "SELECT GTID_SUBSET("+quote.Text(at.gtids.String())+", "+quote.Text(theirs.gtids.String())+")")
	if err != nil {
		return "", fmt.Errorf("compare gtids: %w", err)
	}
	if rows[0][0] != "1" {
		return other, nil
	}
	return "", nil
}
