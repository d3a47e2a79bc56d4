package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// unreadable tells why the server does not send its log from a place on, "" if it does. It has the server begin to: that a file
// of the right name is the right one, that an event begins at the place, and that nothing is missing behind GTIDs, nothing else
// tells for certain.
func unreadable(ctx context.Context, c *server.Config, at *resume) (why string, err error) {
	cfg := *c
	cfg.ServerID = 0 // one that is drawn: a relay that reads is not to be cut off by who only looks
	s := New(cfg)
	d, err := s.openDump(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	end, err := server.ReadLogEnd(ctx, d.session)
	if err != nil {
		return "", err
	}
	st := newStream(s, d, &watch{cfg: c}, at)
	if err = st.begin(ctx, at); err == nil {
		release := context.AfterFunc(ctx, st.wire.Interrupt)
		err = st.open(ctx, st.cur.Before(end.Position))
		release()
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, source.ErrGap):
		return strings.TrimSuffix(err.Error(), ": "+source.ErrGap.Error()), nil
	case err != nil:
		return "", fmt.Errorf("look whether the log can be read: %w", err)
	}
	return "", nil
}

// open reads up to the description of the first file, which comes before all that the file holds, and where the log goes on behind
// the place, the event that begins there. A heartbeat instead says that the server may not send that yet.
func (st *stream) open(ctx context.Context, goesOn bool) error {
	for !st.opened || st.unproven && goesOn {
		payload, large := st.wire.Next()
		switch {
		case st.opened && len(payload) > 0 && payload[0] == 0 && heartbeats(payload[1:]):
			return nil
		case payload != nil:
			if err := st.packet(ctx, payload); err != nil {
				return err
			}
		case large && st.opened: // transactions begin with a small one
			return st.misplaced()
		case large:
			return fmt.Errorf("read the binlog from %s: it does not begin with a description: %w", st.cur, binlog.ErrProtocol)
		default:
			if err := st.wire.Fill(time.Time{}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func heartbeats(event []byte) bool {
	h, ok := binlog.ParseHeader(event)
	return ok && h.Heartbeat()
}
