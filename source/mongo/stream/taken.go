package stream

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

var _ source.Taker = (*Source)(nil)

// TakeOver implements source.Taker. The other reader's token stands behind one event of its cluster time, which others may have as well, so all events
// of that time come again.
func (s *Source) TakeOver(ctx context.Context) (source.Snapshot, error) {
	if s.err != nil {
		return nil, s.err
	}
	token := s.cfg.LeftOff.Position
	if token == "" {
		return nil, nil
	}
	at, err := oplog.TokenTextTime(token)
	if err != nil {
		return nil, fmt.Errorf("take over: %w: %w", err, source.ErrStop)
	}
	resume := oplog.Place{At: at - 1}.Resume()
	e, err := Examine(ctx, &s.cfg, "", resume)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if e.Lost != "" {
		return nil, fmt.Errorf("take over from resume token %s: %s: %s: %w", token, e.Lost, source.OverlapFix, source.ErrStop)
	}
	s.cfg.Logger.Info("took over where another reader of the log stopped", "position", string(resume))
	return source.Taken(resume), nil
}
