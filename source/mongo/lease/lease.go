// Package lease is the lock of a pipeline: a lease in its document of tailbox_checkpoint. A session that holds the lease renews it, and
// proves in each transaction that it still does, so that nothing is committed by a relay that another one has taken over from.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
)

const (
	// lifetime is how long a lease is good for without being renewed, by the server's clock.
	lifetime = 10 * time.Second
	// renewAfter is how old the last renewal may be when an answer of the store counts as a proof of the lease.
	renewAfter = 1500 * time.Millisecond
	// tries bounds how often a lease is tried for that another one changes meanwhile.
	tries = 3
)

// ErrLost ends a session: another relay has taken the lease over.
var ErrLost = errors.New("the pipeline's lease was taken over by another relay")

// document is the part of a document of tailbox_checkpoint that is the lease. It is the pipeline's lock: who holds it
// knows its epoch, and every transaction of a holder changes the document on the condition that the epoch is still the same.
type document struct {
	Epoch   int64       `bson:"lease_epoch"`
	Holder  *Holder     `bson:"lease_holder"`
	Session bson.Binary `bson:"lease_session"`
	Expired bool        `bson:"expired"` // computed by the server
	Updated time.Time   `bson:"updated_at"`
}

// A Session is a session of the server that may hold the pipeline's lease.
type Session struct {
	client      *mongo.Client
	session     *mongo.Session
	checkpoints *mongo.Collection
	pipeline    string
	Epoch       int64     // 0 = it does not hold the lease
	renewed     time.Time // when the last command that proved the lease was sent
}

// Start starts a session that does not hold the lease yet.
func Start(client *mongo.Client, cfg *conn.Config) (*Session, error) {
	session, err := client.StartSession()
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return &Session{client: client, session: session, checkpoints: client.Database(cfg.Schema).Collection(catalog.Checkpoints), pipeline: cfg.Pipeline}, nil
}

// In is the context with the session.
func (s *Session) In(ctx context.Context) context.Context {
	return mongo.NewSessionContext(ctx, s.session)
}

// End ends the session.
func (s *Session) End(ctx context.Context) { s.session.EndSession(ctx) }

// Proved notes that a command which was sent then has proved the lease.
func (s *Session) Proved(sent time.Time) { s.renewed = sent }

// Forget leaves the lease as it is, without giving it back.
func (s *Session) Forget() { s.Epoch = 0 }

// expired is whether a lease is, by the server's clock.
func expired() bson.D {
	return bson.D{{Key: "$lte", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$lease_expires_at", time.Unix(0, 0)}}}, "$$NOW"}}}
}

// until is when a lease that is renewed now expires.
func until() bson.D {
	return bson.D{{Key: "$add", Value: bson.A{"$$NOW", lifetime.Milliseconds()}}}
}

// Take makes the session the holder, or fails with checkpoint.ErrLocked.
func (s *Session) Take(ctx context.Context, migration int) error {
	for range tries {
		var lease document
		err := s.checkpoints.FindOne(ctx, s.Own(), options.FindOne().SetProjection(bson.D{
			{Key: "lease_epoch", Value: 1}, {Key: "lease_holder", Value: 1}, {Key: "lease_session", Value: 1}, {Key: "expired", Value: expired()},
		})).Decode(&lease)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			if err := s.first(ctx, migration); err != nil {
				return err
			}
			continue
		case err != nil:
			return conn.Fault("look at the pipeline's lease", err)
		}
		dead := lease.Holder != nil && lease.Holder.dead()
		if !lease.Expired && !dead {
			break
		}
		taken, err := s.takeOver(ctx, &lease, dead)
		if err != nil || taken {
			return err
		}
	}
	return fmt.Errorf("take the lease of pipeline %s: %w", s.pipeline, checkpoint.ErrLocked)
}

// Own is the filter for the pipeline's document.
func (s *Session) Own() bson.D { return bson.D{{Key: "_id", Value: s.pipeline}} }

// Held is Own, as long as the lease is.
func (s *Session) Held() bson.D {
	return append(s.Own(), bson.E{Key: "lease_epoch", Value: s.Epoch})
}

// first makes the pipeline's document, with a lease that nobody holds.
func (s *Session) first(ctx context.Context, migration int) error {
	_, err := s.checkpoints.InsertOne(ctx, append(bson.D{{Key: "_id", Value: s.pipeline}, {Key: "lease_expires_at", Value: time.Unix(0, 0)}},
		catalog.FirstFields(migration)...))
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		return conn.Fault("make the pipeline's lease", err)
	}
	return nil
}

// takeOver takes a lease that has expired, or whose holder is dead. The holder's session is ended first: the server would keep
// an unfinished transaction of it for a minute, with the lease and what else it has changed locked.
func (s *Session) takeOver(ctx context.Context, lease *document, dead bool) (bool, error) {
	if len(lease.Session.Data) > 0 {
		err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "killSessions", Value: bson.A{bson.D{{Key: "id", Value: lease.Session}}}}}).Err()
		if err != nil {
			return false, conn.Fault("end the session of the lease's last holder", err)
		}
	}
	filter := append(s.Own(), bson.E{Key: "lease_epoch", Value: lease.Epoch})
	if !dead {
		filter = append(filter, bson.E{Key: "$expr", Value: expired()})
	}
	me := ThisProcess()
	sent := time.Now()
	_, session := s.session.ID().Lookup("id").Binary()
	res, err := s.checkpoints.UpdateOne(ctx, filter, bson.A{bson.D{{Key: "$set", Value: bson.D{
		{Key: "lease_epoch", Value: lease.Epoch + 1}, {Key: "lease_holder", Value: bson.D{{Key: "$literal", Value: me}}},
		{Key: "lease_session", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: session}},
		{Key: "lease_expires_at", Value: until()}, {Key: "updated_at", Value: "$$NOW"},
	}}}})
	if err != nil {
		return false, conn.Fault("take the pipeline's lease", err)
	}
	if res.MatchedCount == 0 {
		return false, nil
	}
	s.Epoch, s.renewed = lease.Epoch+1, sent
	return true, nil
}

// Renew makes the lease last longer, and proves that it is still held. It returns what the server's clock says.
func (s *Session) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	var renewed struct {
		At time.Time `bson:"updated_at"`
	}
	err := s.checkpoints.FindOneAndUpdate(s.In(ctx), s.Held(), bson.A{bson.D{{Key: "$set", Value: bson.D{
		{Key: "lease_expires_at", Value: until()}, {Key: "updated_at", Value: "$$NOW"},
	}}}}, options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "updated_at", Value: 1}})).Decode(&renewed)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return time.Time{}, ErrLost
	case err != nil:
		return time.Time{}, conn.Fault("renew the pipeline's lease", err)
	}
	s.renewed = sent
	return renewed.At, nil
}

// Keep renews the lease, if it has one, where the last proof is too old for what is answered next to be one.
func (s *Session) Keep(ctx context.Context) error {
	if s.Epoch == 0 || time.Since(s.renewed) < renewAfter {
		return nil
	}
	_, err := s.Renew(ctx)
	return err
}

// Release gives the lease back, if it has one, so that another relay need not wait for its end. Set is what else changes in the
// pipeline's document.
func (s *Session) Release(ctx context.Context, set bson.D) error {
	if s.Epoch == 0 {
		return nil
	}
	set = append(bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}}, set...)
	if _, err := s.checkpoints.UpdateOne(s.In(ctx), s.Held(), bson.D{{Key: "$set", Value: set}}); err != nil {
		return fmt.Errorf("give the pipeline's lease back: %w", err)
	}
	return nil
}

// A Report is who holds the lease.
type Report struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Renewed is when the lease was renewed last, by the server's clock.
	Renewed time.Time `json:"renewed"`
}

// Read reads who holds the lease; nil if nobody does.
func Read(ctx context.Context, client *mongo.Client, cfg *conn.Config) (*Report, error) {
	var lease document
	err := client.Database(cfg.Schema).Collection(catalog.Checkpoints).FindOne(ctx, bson.D{{Key: "_id", Value: cfg.Pipeline}},
		options.FindOne().SetProjection(bson.D{{Key: "lease_epoch", Value: 1}, {Key: "lease_holder", Value: 1}, {Key: "updated_at", Value: 1},
			{Key: "expired", Value: expired()}})).Decode(&lease)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, conn.Fault("look at the pipeline's lease", err)
	case lease.Expired || lease.Holder == nil:
		return nil, nil
	}
	return &Report{Host: lease.Holder.Host, PID: lease.Holder.PID, Renewed: lease.Updated.UTC()}, nil
}
