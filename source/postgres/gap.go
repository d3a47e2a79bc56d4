package postgres

import (
	"context"
	"errors"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/snapshot"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Gap implements operate.Database. It returns the gap behind the checkpoint: why the next start cannot read the log on, or that its sweep has not
// ended; nil if the next start goes on from the checkpoint. It changes nothing. It fails without a checkpoint, because there is nothing to accept.
func (cfg Config) Gap(ctx context.Context) (gap *operate.Gap, err error) {
	c := session.Config(cfg)
	s, err := pgstore.OpenReader(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, s.Conn)) }()
	examine := func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
		if _, err := s.SlotClaims().Claim(ctx); err != nil {
			return nil, err
		}
		return upstream.Examine(ctx, &c, sourceID, from, &upstream.ServerMemory{})
	}
	if cfg.Poll {
		examine = func(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
			return polling.Examine(ctx, &c, sourceID, from, &upstream.ServerMemory{})
		}
	}
	if gap, err = operate.FindGap(ctx, s.SavedCheckpoint, examine); err != nil {
		return nil, err
	}
	gap, err = operate.JudgeGap(gap, cfg.Tables, func(t *outbox.Table) (name, fix string, err error) {
		info, err := catalog.Describe(ctx, s.Conn.PgConn(), t)
		if err != nil {
			return "", "", err
		}
		_, fix = snapshot.Pending(&c, info, source.Known{})
		return info.String(), fix, nil
	})
	if gap != nil && !gap.Unswept && cfg.Messages != "" {
		gap.Unjudged = append(gap.Unjudged, "source.messages")
	}
	return gap, err
}
