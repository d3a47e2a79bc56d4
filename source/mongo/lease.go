package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
)

const (
	// leaseTime is how long a lease is good for without being renewed, by the server's clock.
	leaseTime = 10 * time.Second
	// renewAfter is how old the last renewal may be when an answer of the store counts as a proof of the lease.
	renewAfter = 1500 * time.Millisecond
	// leaseTries bounds how often a lease is tried for that another one changes meanwhile.
	leaseTries = 3
)

// errLeaseLost ends a session: another relay has taken the lease over.
var errLeaseLost = errors.New("the pipeline's lease was taken over by another relay")

// A holder is a process, and tells another one on the same machine whether it lives.
type holder struct {
	Host    string `bson:"host"`
	Boot    string `bson:"boot"`    // of the machine: pids begin anew
	Space   string `bson:"space"`   // the pid's namespace
	Started string `bson:"started"` // when the process was, since the machine was booted: pids come again
	PID     int    `bson:"pid"`
}

// leaseDocument is the part of a document of tailbox_checkpoint that is the lease. It is the pipeline's lock: who holds it
// knows its epoch, and every transaction of a holder changes the document on the condition that the epoch is still the same.
type leaseDocument struct {
	Epoch   int64       `bson:"lease_epoch"`
	Holder  *holder     `bson:"lease_holder"`
	Session bson.Binary `bson:"lease_session"`
	Expired bool        `bson:"expired"` // computed by the server
	Updated time.Time   `bson:"updated_at"`
}

// expired is whether a lease is, by the server's clock.
func expired() bson.D {
	return bson.D{{Key: "$lte", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$lease_expires_at", time.Unix(0, 0)}}}, "$$NOW"}}}
}

// leaseUntil is when a lease that is renewed now expires.
func leaseUntil() bson.D {
	return bson.D{{Key: "$add", Value: bson.A{"$$NOW", leaseTime.Milliseconds()}}}
}

// takeLease makes the session the holder, or fails with checkpoint.ErrLocked.
func (s *stateStore) takeLease(ctx context.Context) error {
	for range leaseTries {
		var lease leaseDocument
		err := s.checkpoints.FindOne(ctx, s.mine(), options.FindOne().SetProjection(bson.D{
			{Key: "lease_epoch", Value: 1}, {Key: "lease_holder", Value: 1}, {Key: "lease_session", Value: 1}, {Key: "expired", Value: expired()},
		})).Decode(&lease)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			if err := s.firstLease(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return fault("look at the pipeline's lease", err)
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
	return fmt.Errorf("take the lease of pipeline %s: %w", s.cfg.Pipeline, checkpoint.ErrLocked)
}

// mine is the filter for the pipeline's document.
func (s *stateStore) mine() bson.D { return bson.D{{Key: "_id", Value: s.cfg.Pipeline}} }

// held is mine, as long as the lease is.
func (s *stateStore) heldFilter() bson.D {
	return append(s.mine(), bson.E{Key: "lease_epoch", Value: s.epoch})
}

// firstLease makes the pipeline's document, with a lease that nobody holds.
func (s *stateStore) firstLease(ctx context.Context) error {
	_, err := s.checkpoints.InsertOne(ctx, append(bson.D{{Key: "_id", Value: s.cfg.Pipeline}, {Key: "lease_expires_at", Value: time.Unix(0, 0)}},
		firstFields(s.migration)...))
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		return fault("make the pipeline's lease", err)
	}
	return nil
}

// takeOver takes a lease that has expired, or whose holder is dead. The holder's session is ended first: the server would keep
// an unfinished transaction of it for a minute, with the lease and what else it has changed locked.
func (s *stateStore) takeOver(ctx context.Context, lease *leaseDocument, dead bool) (bool, error) {
	if len(lease.Session.Data) > 0 {
		err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "killSessions", Value: bson.A{bson.D{{Key: "id", Value: lease.Session}}}}}).Err()
		if err != nil {
			return false, fault("end the session of the lease's last holder", err)
		}
	}
	filter := append(s.mine(), bson.E{Key: "lease_epoch", Value: lease.Epoch})
	if !dead {
		filter = append(filter, bson.E{Key: "$expr", Value: expired()})
	}
	me := thisProcess()
	sent := time.Now()
	_, session := s.session.ID().Lookup("id").Binary()
	res, err := s.checkpoints.UpdateOne(ctx, filter, bson.A{bson.D{{Key: "$set", Value: bson.D{
		{Key: "lease_epoch", Value: lease.Epoch + 1}, {Key: "lease_holder", Value: bson.D{{Key: "$literal", Value: me}}},
		{Key: "lease_session", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: session}},
		{Key: "lease_expires_at", Value: leaseUntil()}, {Key: "updated_at", Value: "$$NOW"},
	}}}})
	if err != nil {
		return false, fault("take the pipeline's lease", err)
	}
	if res.MatchedCount == 0 {
		return false, nil
	}
	s.epoch, s.renewed = lease.Epoch+1, sent
	return true, nil
}

// renew makes the lease last longer, and proves that it is still held. It returns what the server's clock says.
func (s *stateStore) renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	var renewed struct {
		At time.Time `bson:"updated_at"`
	}
	err := s.checkpoints.FindOneAndUpdate(s.in(ctx), s.heldFilter(), bson.A{bson.D{{Key: "$set", Value: bson.D{
		{Key: "lease_expires_at", Value: leaseUntil()}, {Key: "updated_at", Value: "$$NOW"},
	}}}}, options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "updated_at", Value: 1}})).Decode(&renewed)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return time.Time{}, errLeaseLost
	case err != nil:
		return time.Time{}, fault("renew the pipeline's lease", err)
	}
	s.renewed = sent
	return renewed.At, nil
}

// keep renews the lease where the last proof is too old for what is answered next to be one.
func (s *stateStore) keep(ctx context.Context) error {
	if time.Since(s.renewed) < renewAfter {
		return nil
	}
	_, err := s.renew(ctx)
	return err
}

// release gives the lease back, so that another relay need not wait for its end. A start that settled nothing is taken back:
// an end by Close is a clean one.
func (s *stateStore) release(ctx context.Context) error {
	set := bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}}
	if s.Unclean || s.Started {
		set = append(set, bson.E{Key: "unclean_starts", Value: s.UncleanBefore}, bson.E{Key: "started", Value: ""})
	}
	if _, err := s.checkpoints.UpdateOne(ctx, s.heldFilter(), bson.D{{Key: "$set", Value: set}}); err != nil {
		return fmt.Errorf("give the pipeline's lease back: %w", err)
	}
	return nil
}
