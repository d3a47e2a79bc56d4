package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

var _ store.Database = Config{}

// Source implements store.Database.
func (cfg Config) Source() source.Source { return New(cfg) }

// FirstMade implements store.Database.
func (cfg Config) FirstMade() string { return "" }

// Send implements store.Database, with the writer of applications.
func (cfg Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	database, err := cfg.Database()
	if err != nil {
		return "", err
	}
	client, err := driver.Connect(options.Client().ApplyURI(cfg.URL))
	if err != nil {
		return "", fmt.Errorf("read source.url: %w", err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	w, err := outboxmongo.New(ctx, client.Database(database), *t, o)
	if err != nil {
		return "", err
	}
	written, err := w.Transactor(client, nil).Do(ctx, func(context.Context, *driver.Session) ([]outbox.Draft, error) { return []outbox.Draft{d}, nil })
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// Status implements store.Database.
func (cfg Config) Status(ctx context.Context) (*store.Status, error) {
	r, err := Status(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := store.NewStatus(&r.Report, r)
	s.Relay = "not running: nobody holds the pipeline's lease"
	if h := r.Holder; h != nil {
		s.Running = true
		s.Relay = fmt.Sprintf("running at %s (process %d), lease renewed at %s", h.Host, h.PID, h.Renewed.Format(time.RFC3339))
	}
	s.Source = fmt.Sprintf("mongodb %s, %s, log ends at %s", r.Version, r.SourceID, r.End)
	if o := r.Oplog; o != nil {
		s.Log = append(s.Log, []string{"oplog", fmt.Sprintf("reaches back %s, %s of at most %s", store.Seconds(o.WindowSeconds), store.Bytes(o.Bytes), store.Bytes(o.MaxBytes))})
	}
	if c := r.Checkpoint; c != nil && c.LagSeconds != nil {
		s.Log = append(s.Log, []string{"lag", store.Seconds(*c.LagSeconds)})
	}
	return s, nil
}
