package polling

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/snapshot"
	"github.com/tailbox/tailbox/source/poll"
)

// A Source reads an outbox table in the order of its AUTO_INCREMENT column, where the binlog cannot be read. It needs no
// binlog and no right to replicate, but the right PROCESS. See source.Source for its methods, and package poll for what positions are.
type Source struct {
	poll.Source
	cfg server.Config
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg server.Config) *Source {
	cfg.MaxMessage, cfg.Poll = source.MaxMessage(cfg.MaxMessage), true
	cfg.Logger = cfg.Log()
	s := &Source{cfg: cfg}
	s.Source = poll.NewSource(func(ctx context.Context) (poll.Session, error) { return Open(ctx, &s.cfg) }, changed, cfg.Logger)
	return s
}

// changed reports whether the server refused a statement because the table, or the rights to it, changed.
func changed(err error) bool {
	switch server.Code(err) {
	case 1146, 1054, 1176, server.CodeNeedPrivilege, 1142, 1143:
		return true
	}
	return false
}

// Open opens a session for polling, where each statement shows all that was committed before it, and looks the table up.
func Open(ctx context.Context, c *server.Config) (*Table, error) {
	s, err := c.Connect(ctx, c.URL)
	if err != nil {
		return nil, err
	}
	for _, sql := range append(uncached(s.Server), "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET wait_timeout = 31536000, net_write_timeout = 3600") {
		if _, err := s.Exec(ctx, sql); err != nil {
			return nil, errors.Join(fmt.Errorf("set up session: %w", err), s.Close(ctx))
		}
	}
	t, err := openTable(ctx, c, s)
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return t, nil
}

// uncached makes MySQL look up the number that comes next, which it else remembers for a day.
func uncached(s server.Version) []string {
	if s.MariaDB {
		return nil
	}
	return []string{"SET information_schema_stats_expiry = 0"}
}

// Examine implements source.Source. A SourceID is the same as that of a source that reads the log.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return Examine(ctx, &s.cfg, sourceID, from)
}

// Examine compares a checkpoint with the server. Another server may have drawn numbers again that the first one lost: there the
// position is lost, and the sweep finds what is pending.
func Examine(ctx context.Context, c *server.Config, checkpointID string, from source.Resume) (e *source.Examined, err error) {
	t, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	e = &source.Examined{}
	if e.SourceID, err = server.SourceID(ctx, t.conn); err != nil {
		return nil, err
	}
	if from == "" {
		return e, nil
	}
	elsewhere := ""
	if checkpointID != "" && checkpointID != e.SourceID {
		elsewhere = fmt.Sprintf("the checkpoint belongs to server %s, this is %s, where numbers may have been drawn again", checkpointID, e.SourceID)
	}
	if e.Lost, err = poll.Lost(ctx, t, from, elsewhere); err != nil {
		return nil, err
	}
	return e, nil
}

// Snapshot implements poll.Session.
func (t *Table) Snapshot(ctx context.Context, at uint64) (poll.Snapshot, error) {
	for _, sql := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET group_concat_max_len = 1048576", snapshot.Begin} {
		if _, err := t.conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("open snapshot: %w", err)
		}
	}
	return snapshot.Of(t.cfg, t.conn, fmt.Sprintf("t.%s <= %d", quote.Ident(t.seq), at)), nil
}
