package mongo

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/test/servers"
)

// open opens and loads a store that the test closes at its end.
func (r *rig) open() *stateStore {
	r.t.Helper()
	s, err := openStore(r.ctx, r.cfg)
	r.must(err)
	r.t.Cleanup(func() { _ = s.Close(context.Background()) })
	_, err = s.Load(r.ctx)
	r.must(err)
	return s
}

// lease changes the pipeline's lease by hand.
func (r *rig) lease(set bson.D) {
	r.t.Helper()
	_, err := r.client.Database(r.cfg.Schema).Collection(checkpointCollection).UpdateOne(r.ctx, bson.D{}, bson.D{{Key: "$set", Value: set}})
	r.must(err)
}

// A relay that was stopped in the middle of a transaction holds the lease's document, and documents of the outbox, locked. The
// next one ends its session, takes the lease over, and what the old one goes on with comes to nothing.
func TestTakeOverFromStoppedHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	r.insert(r.ctx, 0, "1", nil)
	old := r.open()
	if _, err := r.cfg.Open(r.ctx); !errors.Is(err, checkpoint.ErrLocked) {
		t.Fatalf("open beside a holder: %v", err)
	}
	r.lease(bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}})
	ctx := old.in(r.ctx)
	r.must(old.begin(0))
	_, err := old.collection(&old.cfg.Tables[0]).DeleteOne(ctx, bson.D{{Key: "_id", Value: "1"}})
	r.must(err)
	r.must(old.proveLease(ctx, nil))

	began := time.Now()
	next := r.open()
	if waited := time.Since(began); waited > 20*time.Second {
		t.Errorf("the lease was taken after %v", waited)
	}
	settled := checkpoint.Settlement{Rows: []checkpoint.Row{{Table: r.cfg.Tables[0].String(), ID: "1"}},
		Checkpoint: func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "s", Resume: "1:1", Log: 1}
		}}
	out, err := next.Settle(r.ctx, &settled)
	if err != nil || out.Gone != 0 || len(out.Invisible) != 0 {
		t.Errorf("settle what the old holder had locked: %+v, %v", out, err)
	}
	if err := old.commit(ctx); err == nil {
		t.Error("the old holder's transaction was committed")
	}
	if _, err := old.Settle(r.ctx, &settled); !errors.Is(err, errLeaseLost) {
		t.Errorf("the old holder settles: %v", err)
	}
	_, pinged := old.Ping(r.ctx)
	for what, err := range map[string]error{"ping": pinged, "save": old.Save(r.ctx, &checkpoint.Checkpoint{Resume: "2:2"}),
		"starting": old.Starting(r.ctx, checkpoint.Suspect{})} {
		if !errors.Is(err, errLeaseLost) {
			t.Errorf("the old holder's %s: %v", what, err)
		}
	}
	if _, _, err := old.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil && !errors.Is(err, errLeaseLost) {
		t.Errorf("the old holder's due: %v", err)
	}
	_, err = next.Ping(r.ctx)
	r.must(err)
}

// A holder that is a dead process of this machine is not waited for; one that lives, or that nothing is known of, is.
func TestTakeOverFromDeadProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	cmd := exec.Command("true")
	r.must(cmd.Run())
	for _, test := range []struct {
		change func(*holder)
		dead   bool
	}{
		{func(h *holder) { h.PID = cmd.Process.Pid }, true},
		{func(h *holder) { h.Started = "1" }, true},
		{func(*holder) {}, false},
		{func(h *holder) { h.PID, h.Host = cmd.Process.Pid, "elsewhere" }, false},
		{func(h *holder) { h.PID, h.Boot = cmd.Process.Pid, "another" }, false},
		{func(h *holder) { h.PID, h.Space = cmd.Process.Pid, "pid:[1]" }, false},
	} {
		s := r.open()
		h := thisProcess()
		test.change(&h)
		r.lease(bson.D{{Key: "lease_holder", Value: h}})
		other, err := openStore(r.ctx, r.cfg)
		if test.dead != (err == nil) || err != nil && !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("%+v: got %v, want it dead: %v", h, err, test.dead)
		}
		if other != nil {
			r.must(other.Close(r.ctx))
		}
		r.must(s.Close(r.ctx))
	}
}

// A clean end leaves the lease free at once, and counts no start.
func TestCleanEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	for range 4 {
		s, err := openStore(r.ctx, r.cfg)
		r.must(err)
		loaded, err := s.Load(r.ctx)
		r.must(err)
		equal(t, "unclean starts", loaded.UncleanStarts, 0)
		r.must(s.Close(r.ctx))
	}
}
