package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/poll"
)

// Examine compares a checkpoint with the server.
func Examine(ctx context.Context, c *server.Config, sourceID string, from source.Resume) (e *source.Examined, err error) {
	s, err := c.Connect(ctx, c.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	server, err := server.Inspect(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("examine the server: %w", err)
	}
	e = &source.Examined{SourceID: server.ID}
	if from == "" {
		return e, nil
	}
	if e.Lost = poll.OfLog(from); e.Lost != "" {
		return e, nil
	}
	at, err := parseResume(from)
	if err != nil {
		return nil, fmt.Errorf("examine the checkpoint: %w", err)
	}
	switch {
	case at.server != server.ID:
		e.Lost, err = lostElsewhere(ctx, s, server, at)
	case sourceID != "" && sourceID != server.ID:
		e.Lost = fmt.Sprintf("the checkpoint belongs to server %s, and its position to %s, which this is", sourceID, server.ID)
	default:
		e.Lost, err = lostHere(ctx, c, s, at)
	}
	if e.Lost == "" && err == nil {
		e.Lost, err = unreadable(ctx, c, at)
	}
	if err != nil {
		return nil, err
	}
	// Positions of another server's log say nothing about this one's: none is shared.
	e.Moved = e.Lost == "" && sourceID != "" && sourceID != server.ID
	return e, nil
}

// lostHere tells why a place in this server's own log cannot be read any more, as far as the list of its files and its GTIDs show it.
// Whether its file is still the same one shows when it is opened. XA transactions that were prepared in a file that was purged since, and never ended,
// are no reason where a comparison with the log finds their rows: at goes back to the first file there is, in which others may be prepared.
func lostHere(ctx context.Context, c *server.Config, s *server.Conn, at *resume) (string, error) {
	files, err := server.ReadLogFiles(ctx, s)
	if err != nil {
		return "", err
	}
	has := func(p binlog.Position) bool {
		return slices.ContainsFunc(files, func(f server.LogFile) bool { return f.Start.File == p.File })
	}
	if at.from.File != 0 && !has(at.from) {
		for i := range c.Tables {
			if t := &c.Tables[i]; t.OnDelivered == outbox.Keep {
				return fmt.Sprintf("the server has no file %s any more, where an XA transaction was prepared that had not ended at the checkpoint, and nothing "+
					"but the log tells what it wrote to %s (on_delivered: keep): it was purged, or the log was reset", at.from.FileName(), t), nil
			}
		}
		at.from = binlog.Position{}
		if len(files) > 0 && files[0].Start.Before(at.place) {
			at.from = files[0].Start
		}
	}
	for _, f := range files {
		if f.Start.Base != at.place.Base {
			return fmt.Sprintf("the server's binlog files are named %s…, the checkpoint is in %s", f.Start.Base, at.place.FileName()), nil
		}
		if f.Start.File == at.place.File && f.Size < at.place.Pos {
			return fmt.Sprintf("the checkpoint is at %s, but the file ends at %d: the log was reset, or the server restored from an older state", at.place, f.Size), nil
		}
	}
	if !has(at.place) {
		return fmt.Sprintf("the server has no file %s any more: it was purged, or the log was reset", at.place.FileName()), nil
	}
	return lostGTIDs(ctx, s, at, false)
}

// lostElsewhere tells why another server cannot go on where the checkpoint's stopped, "" if it can.
func lostElsewhere(ctx context.Context, s *server.Conn, server *server.Info, at *resume) (string, error) {
	switch {
	case at.gtids.Empty():
		return fmt.Sprintf("the checkpoint belongs to server %s, this is server %s, and without GTIDs nothing tells where its log goes on", at.server, server.ID), nil
	case !server.GTIDs || at.gtids.MariaDB != s.Server.MariaDB:
		return fmt.Sprintf("the checkpoint belongs to server %s, this is server %s, which numbers no transactions as that one did", at.server, server.ID), nil
	}
	return lostGTIDs(ctx, s, at, true)
}

// lostGTIDs compares sets: a server that lacks transactions of the checkpoint is not its successor; one that has purged others
// cannot send them.
func lostGTIDs(ctx context.Context, s *server.Conn, at *resume, elsewhere bool) (string, error) {
	if at.gtids.Empty() {
		return "", nil
	}
	if s.Server.MariaDB {
		return lostDomains(ctx, s, at, elsewhere)
	}
	set := quote.Text(at.gtids.String())
	rows, err := s.Texts(ctx, "SELECT GTID_SUBSET("+set+", @@global.gtid_executed), GTID_SUBSET(@@global.gtid_purged, "+set+"), @@global.gtid_mode")
	if err != nil {
		return "", fmt.Errorf("compare gtids: %w", err)
	}
	switch {
	case rows[0][0] != "1" && !elsewhere && rows[0][2] != "ON":
		return "", nil // numbers of transactions from when GTIDs were on
	case rows[0][0] != "1":
		return "the server lacks transactions that the checkpoint has: the failover lost log, or the server was reset or restored", nil
	case rows[0][1] != "1" && elsewhere:
		return "the server has purged transactions that come after the checkpoint", nil
	}
	return "", nil
}

// lostDomains compares MariaDB's positions. Whether the log of another server still holds what comes next shows when it is read. A
// domain that this server does not know at all any more, beside others, was deleted (FLUSH BINARY LOGS DELETE_DOMAIN_ID), which takes that
// nothing of it is left in the log.
func lostDomains(ctx context.Context, s *server.Conn, at *resume, elsewhere bool) (string, error) {
	rows, err := s.Texts(ctx, "SELECT CONCAT_WS(',', NULLIF(@@global.gtid_binlog_pos, ''), NULLIF(@@global.gtid_slave_pos, ''))")
	if err != nil {
		return "", fmt.Errorf("compare gtids: %w", err)
	}
	latest := map[string]uint64{}
	for _, text := range rows[0] {
		for part := range strings.SplitSeq(text, ",") { // one by one: of a set with a domain twice, the last one counts
			set, err := binlog.ParseGTIDSet(part, true)
			if err != nil {
				return "", fmt.Errorf("compare gtids: %w", err)
			}
			for domain, seq := range set.Domains() {
				latest[domain] = max(latest[domain], seq)
			}
		}
	}
	for domain, seq := range at.gtids.Domains() {
		if _, known := latest[domain]; !known && !elsewhere && len(latest) > 0 {
			continue
		}
		if latest[domain] < seq {
			return fmt.Sprintf("the server's domain %s is at %d, the checkpoint at %d: the failover lost log, or the server was reset or restored",
				domain, latest[domain], seq), nil
		}
	}
	return "", nil
}
