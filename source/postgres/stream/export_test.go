package stream

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// What tests outside of the package need of its inside.

// Shortly shows a message in one line.
var Shortly = shortly

// SetCheckEvery changes how often the catalog is compared with the configuration.
func (s *Source) SetCheckEvery(d time.Duration) { s.checkEvery = d }

// SetPatience changes how long the slot's creation may take.
func (s *Source) SetPatience(p upstream.Patience) { s.patience = p }

// SetTextOnly has values sent as text.
func (s *Source) SetTextOnly(only bool) { s.textOnly.Store(only) }

// OpenWatch opens the session that looks at the server beside the stream.
func OpenWatch(ctx context.Context, cfg *session.Config) (*pgx.Conn, error) {
	w := &watch{cfg: cfg}
	err := w.connect(ctx)
	return w.conn, err
}
