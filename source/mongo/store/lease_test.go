package store

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// A relay that was stopped in the middle of a transaction holds the lease's document, and documents of the outbox, locked. The
// next one ends its session, takes the lease over, and what the old one goes on with comes to nothing.
func TestTakeOverFromStoppedHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	r.Insert(r.Ctx, 0, "1", nil)
	old := opened(r)
	if _, err := Open(r.Ctx, r.Config); !errors.Is(err, checkpoint.ErrLocked) {
		t.Fatalf("open beside a holder: %v", err)
	}
	r.SetLease(bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}})
	ctx := old.lease.In(r.Ctx)
	r.Must(old.lease.Begin(0))
	_, err := old.tables.collection(&old.cfg.Tables[0]).DeleteOne(ctx, bson.D{{Key: "_id", Value: "1"}})
	r.Must(err)
	r.Must(old.lease.Prove(ctx, nil))

	began := time.Now()
	next := opened(r)
	if waited := time.Since(began); waited > 20*time.Second {
		t.Errorf("the lease was taken after %v", waited)
	}
	settled := checkpoint.Settlement{Rows: []checkpoint.Row{{Table: r.Config.Tables[0].String(), ID: "1"}},
		Checkpoint: func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "s", Resume: "1:1", Log: 1}
		}}
	out, err := next.Settle(r.Ctx, &settled)
	if err != nil || out.Gone != 0 || len(out.Invisible) != 0 {
		t.Errorf("settle what the old holder had locked: %+v, %v", out, err)
	}
	if err := old.lease.Commit(ctx); err == nil {
		t.Error("the old holder's transaction was committed")
	}
	if _, err := old.Settle(r.Ctx, &settled); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the old holder settles: %v", err)
	}
	_, pinged := old.Ping(r.Ctx)
	for what, err := range map[string]error{"ping": pinged, "save": old.Save(r.Ctx, &checkpoint.Checkpoint{Resume: "2:2"}),
		"starting": old.Starting(r.Ctx, checkpoint.CrashCandidate{})} {
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("the old holder's %s: %v", what, err)
		}
	}
	if _, _, err := old.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil && !errors.Is(err, lease.ErrLost) {
		t.Errorf("the old holder's due: %v", err)
	}
	_, err = next.Ping(r.Ctx)
	r.Must(err)
}

// A holder that is a dead process of this machine is not waited for; one that lives, or that nothing is known of, is.
func TestTakeOverFromDeadProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	cmd := exec.Command("true")
	r.Must(cmd.Run())
	for _, test := range []struct {
		change func(*lease.Holder)
		dead   bool
	}{
		{func(h *lease.Holder) { h.PID = cmd.Process.Pid }, true},
		{func(h *lease.Holder) { h.Started = "1" }, true},
		{func(*lease.Holder) {}, false},
		{func(h *lease.Holder) { h.PID, h.Host = cmd.Process.Pid, "elsewhere" }, false},
		{func(h *lease.Holder) { h.PID, h.Boot = cmd.Process.Pid, "another" }, false},
		{func(h *lease.Holder) { h.PID, h.Space = cmd.Process.Pid, "pid:[1]" }, false},
	} {
		s := opened(r)
		h := lease.ThisProcess()
		test.change(&h)
		r.SetLease(bson.D{{Key: "lease_holder", Value: h}})
		other, err := open(r.Ctx, r.Config)
		if test.dead != (err == nil) || err != nil && !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("%+v: got %v, want it dead: %v", h, err, test.dead)
		}
		if other != nil {
			r.Must(other.Close(r.Ctx))
		}
		r.Must(s.Close(r.Ctx))
	}
}

// A clean end leaves the lease free at once, and counts no start.
func TestCleanEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	for range 4 {
		s, err := open(r.Ctx, r.Config)
		r.Must(err)
		loaded, err := s.Load(r.Ctx)
		r.Must(err)
		mongotest.Equal(t, "unclean starts", loaded.UncleanStarts, 0)
		r.Must(s.Close(r.Ctx))
	}
}
