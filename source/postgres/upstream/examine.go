package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// Examine compares a checkpoint with the server. Seen is what this process has seen of it.
func Examine(ctx context.Context, c *session.Config, sourceID string, from source.Resume, seen *ServerMemory) (e *source.Examined, err error) {
	conn, err := c.ConnectReplication(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.ClosePgConn(ctx, conn)) }()
	server, err := Identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if server.Recovery {
		return nil, StandbyError("examine the server")
	}
	id := ID{History: server.history(), Started: server.started, messages: c.Messages != ""}
	e = &source.Examined{SourceID: id.String()}
	defer func() {
		if err == nil {
			seen.Note(id, server.end)
		}
	}()
	if from == "" {
		return e, nil
	}
	if e.Lost = poll.OfLog(from); e.Lost != "" {
		return e, nil
	}
	at, err := pgrepl.ParseLSN(string(from))
	if err != nil {
		return nil, fmt.Errorf("examine the checkpoint: %w", err)
	}
	before := ParseID(sourceID)
	e.Shared = uint64(server.end) // a checkpoint names nothing that was not in the log when it was saved
	if before.History != "" && before.History != id.History {
		if e.Lost, e.Shared, err = moved(ctx, conn, server, before.History, at); err != nil || e.Lost != "" {
			return e, err
		}
	}
	if before.messages != id.messages {
		e.Shared = 0
	}
	slot, err := Find(ctx, c, conn)
	if err != nil {
		return nil, err
	}
	if e.Lost, err = Lost(c, slot, server, at); err != nil {
		return nil, err
	}
	if e.Lost != "" && slot != nil {
		e.Ahead = firstReadable(c, slot, server, at)
	}
	e.Moved = sourceID != "" && e.Lost == "" && !seen.Same(before, id, server.end)
	return e, nil
}

// firstReadable returns where the slot stands if that is later than from, and the log can be read there; else "".
func firstReadable(c *session.Config, slot *Slot, server *Server, from pgrepl.LSN) source.Resume {
	confirmed, err := pgrepl.ParseLSN(slot.Confirmed)
	if err != nil || confirmed <= from {
		return ""
	}
	if why, err := Lost(c, slot, server, confirmed); err != nil || why != "" {
		return ""
	}
	return source.Resume(confirmed.String())
}

// moved tells why a checkpoint of another server or timeline means nothing here (lost; "" if this log continues that one from the checkpoint), and up
// to where both logs are the same (shared). Numbers alone do not tell: after a failover the new timeline uses positions that the old one had used,
// too.
func moved(ctx context.Context, conn *pgconn.PgConn, server *Server, history string, at pgrepl.LSN) (lost string, shared uint64, err error) {
	system, text, _ := strings.Cut(history, "/")
	if system != server.SystemID {
		return fmt.Sprintf("the checkpoint belongs to server %s, this is server %s", system, server.SystemID), 0, nil
	}
	old, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return "", 0, fmt.Errorf("examine source id %q: its timeline: %w", history, err)
	}
	if uint32(old) > server.timeline {
		return fmt.Sprintf("the checkpoint belongs to timeline %d, the server is at timeline %d: it was restored from an older state",
			old, server.timeline), 0, nil
	}
	rows, err := session.Query(ctx, conn, "TIMELINE_HISTORY "+strconv.FormatUint(uint64(server.timeline), 10))
	if err != nil {
		return "", 0, fmt.Errorf("read history of timeline %d: %w", server.timeline, err)
	}
	if len(rows) != 1 || len(rows[0]) != 2 {
		return "", 0, fmt.Errorf("read history of timeline %d: %d rows: %w", server.timeline, len(rows), pgrepl.ErrProtocol)
	}
	end, ok, err := timelineEnd(rows[0][1], uint32(old))
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("read history of timeline %d: %w", server.timeline, err)
	case !ok:
		return fmt.Sprintf("the checkpoint belongs to timeline %d, which is not in the history of timeline %d", old, server.timeline), 0, nil
	case at > end:
		return fmt.Sprintf("the checkpoint %s of timeline %d is beyond its end %s in the history of timeline %d: the failover lost log",
			at, old, end, server.timeline), 0, nil
	}
	return "", uint64(end), nil
}

// timelineEnd finds in a timeline's history where an older timeline ended. A line has the older timeline, where it ended, and why, separated by
// blanks; # begins a comment.
func timelineEnd(history string, timeline uint32) (end pgrepl.LSN, ok bool, err error) {
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || fields[0] != strconv.FormatUint(uint64(timeline), 10) {
			continue
		}
		end, err := pgrepl.ParseLSN(fields[1])
		return end, err == nil, err
	}
	return 0, false, nil
}
