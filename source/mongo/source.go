package mongo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
)

// A Source tails the outbox collections through one change stream. See source.Source for its methods. A Resume is a cluster
// time, seconds:ordinal, and never stands inside a transaction. The server keeps its oplog by its own rules, so Confirm tells
// it nothing.
type Source struct {
	cfg      Config
	err      error // of the configuration; every method returns it
	barriers batches.Barriers

	mu        sync.Mutex
	confirmed chan struct{} // closed when awaited was confirmed; nil where nobody waits
	awaited   source.Resume
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg Config) *Source {
	resolved, err := cfg.resolved()
	return &Source{cfg: resolved, err: err}
}

// Confirm implements source.Source.
func (s *Source) Confirm(r source.Resume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirmed != nil && r == s.awaited {
		close(s.confirmed)
		s.confirmed = nil
	}
}

// await returns a channel that is closed when a position was confirmed.
func (s *Source) await(r source.Resume) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed, s.awaited = make(chan struct{}), r
	return s.confirmed
}

// Await implements source.Source. A barrier is a cluster time.
func (s *Source) Await(text string) {
	at, err := parseOpTime(text)
	if err != nil {
		err = errors.New("it is not of the form seconds:ordinal")
	}
	s.barriers.Add(text, uint64(at), err)
}

// forget drops the barriers, for which nobody waits after a Run.
func (s *Source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = nil
	s.barriers.Forget()
}

// Examine implements source.Source. A SourceID is the replica set's name, the UUID of tailbox_checkpoint, which no two
// databases share, and a digest of the tables: with other tables the same rows have other positions.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (e *source.Examined, err error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.cfg.examine(ctx, sourceID, from)
}

func (c *Config) examine(ctx context.Context, sourceID string, from source.Resume) (e *source.Examined, err error) {
	client, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disconnect(ctx, client)) }()
	h, err := greet(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := h.usable(); err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = c.sourceID(ctx, client, h); err != nil || from == "" {
		return e, err
	}
	at, err := parsePlace(from)
	if err != nil {
		return nil, fmt.Errorf("examine the checkpoint: %w", err)
	}
	same := sourceID == "" || sourceID == e.SourceID
	if !same && serverOf(sourceID) != serverOf(e.SourceID) {
		e.Lost = fmt.Sprintf("the checkpoint belongs to server %s, this is server %s", serverOf(sourceID), serverOf(e.SourceID))
		return e, nil
	}
	if at.ended {
		e.Lost = "a collection of the outbox was dropped or renamed: what is in its place now has to be swept"
		return e, nil
	}
	if !h.sharded() {
		if e.Lost, err = lostAnew(ctx, client, at.at); err != nil {
			return nil, err
		}
	}
	if e.Lost == "" {
		e.Lost, err = c.lost(ctx, client, at.at)
	}
	if err != nil {
		return nil, err
	}
	// The log is the same, but rows are counted in another way: what lies beyond the checkpoint is read again.
	e.Moved = !same && e.Lost == ""
	return e, nil
}

// sourceID names the server and the tables.
func (c *Config) sourceID(ctx context.Context, client *mongo.Client, h *hello) (string, error) {
	name := h.SetName
	if h.sharded() {
		name = "sharded"
	}
	info, err := collectionInfo(ctx, client, c.Schema, checkpointCollection)
	if err != nil {
		return "", err
	}
	if info == nil {
		return "", fmt.Errorf("%w: database %s: %w", source.ErrStop, c.Schema, errNoTables())
	}
	var names []string
	for i := range c.Tables {
		names = append(names, c.Tables[i].String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return name + "/" + hex.EncodeToString(info.Info.UUID.Data) + "/" + hex.EncodeToString(sum[:4]), nil
}

// serverOf is the part of a SourceID that names the server.
func serverOf(sourceID string) string {
	i := strings.LastIndexByte(sourceID, '/')
	return sourceID[:max(i, 0)]
}

// A collectionState is what listCollections says.
type collectionState struct {
	Name    string `bson:"name"`
	Type    string `bson:"type"` // collection, view or timeseries
	Options struct {
		Capped    bool     `bson:"capped"`
		Collation bson.Raw `bson:"collation"`
	} `bson:"options"`
	Info struct {
		UUID bson.Binary `bson:"uuid"`
	} `bson:"info"`
}

// collectionInfo looks a collection up; nil if it does not exist.
func collectionInfo(ctx context.Context, client *mongo.Client, database, name string) (*collectionState, error) {
	cur, err := client.Database(database).ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return nil, fault("look for collection "+database+"."+name, err)
	}
	var found []collectionState
	if err := cur.All(ctx, &found); err != nil {
		return nil, fault("look for collection "+database+"."+name, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// existing looks all tables up. A missing one is an error that matches source.ErrStop.
func (c *Config) existing(ctx context.Context, client *mongo.Client) error {
	var errs []error
	for i := range c.Tables {
		t := &c.Tables[i]
		info, err := collectionInfo(ctx, client, t.Schema, t.Name)
		if err != nil {
			return err
		}
		if info == nil {
			errs = append(errs, fmt.Errorf("%w: collection %s does not exist (dropped or renamed?): restore it, create it with "+
				"tailbox init, or correct source.tables", source.ErrNoTable, t))
			continue
		}
		what, cure, err := info.unfit(ctx, client, t)
		if err != nil {
			return err
		}
		if what != "" {
			errs = append(errs, fmt.Errorf("%w: %s: %s", source.ErrStop, what, cure))
		}
	}
	return errors.Join(errs...)
}

// neverFit says why a collection cannot be an outbox whatever its indexes are, with the cure; "" where it can.
func (s *collectionState) neverFit(t *outbox.Table) (what, cure string) {
	switch {
	case cmp.Or(s.Type, "collection") != "collection":
		return fmt.Sprintf("%s is a %s: the log has no inserts into it", t, s.Type), "name a collection in source.tables"
	case s.Options.Capped:
		return fmt.Sprintf("collection %s is capped: no transaction may change it, and no snapshot shows it", t), "use a collection that is not capped"
	}
	return "", ""
}

// unfit says why a collection cannot be an outbox, with the cure; "" where it can.
func (s *collectionState) unfit(ctx context.Context, client *mongo.Client, t *outbox.Table) (what, cure string, err error) {
	if what, cure = s.neverFit(t); what != "" {
		return what, cure, nil
	}
	if len(s.Options.Collation) == 0 || t.Columns.ID == "_id" { // of which there are no two that the collation takes for one
		return "", "", nil
	}
	unique, err := s.uniqueIDs(ctx, client, t)
	if unique || err != nil {
		return "", "", err
	}
	return fmt.Sprintf("collection %s has a collation of its own, by which two messages may have one %s", t, t.Columns.ID),
		"create a unique index on it in the collection's collation, or let _id be the id (source.tables.columns.id)", nil
}

// uniqueIDs tells whether no two documents have ids that the collection's collation takes for one.
func (s *collectionState) uniqueIDs(ctx context.Context, client *mongo.Client, t *outbox.Table) (bool, error) {
	var indexes []struct {
		Key       bson.Raw `bson:"key"`
		Unique    bool     `bson:"unique"`
		Partial   bson.Raw `bson:"partialFilterExpression"`
		Collation bson.Raw `bson:"collation"`
	}
	cur, err := client.Database(t.Schema).Collection(t.Name).Indexes().List(ctx)
	if err == nil {
		err = cur.All(ctx, &indexes)
	}
	if err != nil {
		return false, fault("list indexes of "+t.String(), err)
	}
	for _, x := range indexes {
		if x.Unique && x.Partial == nil && slices.Equal(keysOf(x.Key), []string{t.Columns.ID}) && bytes.Equal(x.Collation, s.Options.Collation) {
			return true, nil
		}
	}
	return false, nil
}
