package postgres

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/test/servers"
)

func TestStandbyGate(t *testing.T) {
	t.Parallel()
	var g standbyGate
	at := func(at pgrepl.LSN) []StandbySlot { return []StandbySlot{{Name: "a", at: at}, {Name: "b", at: 1000}} }
	for i, step := range []struct {
		confirmed, end pgrepl.LSN
		list           []StandbySlot
		want           uint64
	}{
		{10, 20, at(15), 0},
		{12, 30, at(19), 0},
		{12, 40, at(20), 10}, // the standby has what 10 stands for
		{12, 40, at(39), 10},
		{14, 50, at(40), 12},
		{14, 60, at(70), 14},
		{14, 60, nil, math.MaxUint64}, // nothing to wait for
		{16, 80, at(70), 16},          // a new setting takes back nothing that the server heard
		{17, 80, at(80), 17},
	} {
		g.look(step.confirmed, step.end, step.list)
		if got := g.passed.Load(); got != step.want {
			t.Errorf("step %d: passed %d, want %d", i, got, step.want)
		}
	}
}

// standbyRig is a rig whose server waits for a standby before it sends anything.
func standbyRig(t *testing.T) (*rig, *servers.PG) {
	t.Helper()
	r := newRig(t, servers.Postgres(t, "17"), smallDDL, shape("tailbox", "a"))
	r.cfg.Failover = true
	r.src = New(r.cfg)
	standby := r.pg.AddStandby(t, servers.WithSetting("sync_replication_slots", "on"))
	r.exec("ALTER SYSTEM SET synchronized_standby_slots = '" + standby.StandbyName + "'")
	r.exec("SELECT pg_reload_conf()")
	r.until("the setting", func() bool { return r.text("SHOW synchronized_standby_slots") == standby.StandbyName })
	return r, standby
}

// The slot must not pass the checkpoint of a standby: what is confirmed reaches the server only once the standby has the commit of its checkpoint.
func TestConfirmedOnceStandbyHasCheckpoint(t *testing.T) {
	t.Parallel()
	r, standby := standbyRig(t)
	from := r.establish()
	x := r.run(source.Start{From: from})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.messages(1)
	at, err := pgrepl.ParseLSN(string(resume))
	if err != nil {
		t.Fatal(err)
	}
	if err := standby.Pause(); err != nil {
		t.Fatal(err)
	}
	r.exec("CREATE TABLE checkpoint AS SELECT 1") // in place of the checkpoint's commit
	r.src.Confirm(resume)
	heard := func() string {
		return r.text("SELECT r.reply_time::text FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE s.slot_name = $1", r.cfg.Slot)
	}
	for range 3 {
		before := heard()
		r.until("a status update", func() bool { return heard() != before })
	}
	if now := r.confirmed(); now >= at {
		t.Errorf("confirmed up to %s, though the standby does not have the checkpoint that says %s", now, at)
	}
	if err := standby.Resume(); err != nil {
		t.Fatal(err)
	}
	r.until("the confirmation", func() bool { return r.confirmed() >= at })

	// The last one of a soft stop passes, too.
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	_, resume = x.messages(1)
	r.src.Confirm(resume)
	if at, err = pgrepl.ParseLSN(string(resume)); err != nil {
		t.Fatal(err)
	}
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	r.until("the last confirmation", func() bool { return r.confirmed() >= at })
}

// Delivery stops while a standby is away that the server waits for: the log names its slot.
func TestStandbyAwayIsTold(t *testing.T) {
	t.Parallel()
	r, standby := standbyRig(t)
	r.run(source.Start{From: r.establish()})
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	logged := func(text string) func() bool {
		return func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return strings.Contains(r.log.String(), text)
		}
	}
	r.until("the warning", logged(standby.StandbyName+" has no standby that reads it"))
	found(t, r.checkAs(r.cfg), Problem, standby.StandbyName+" has no standby that reads it", "take its slot out of synchronized_standby_slots")
	report, err := Status(t.Context(), r.cfg)
	if err != nil || report.Slot == nil || report.Slot.Waiting != standby.StandbyName+" has no standby that reads it" || report.Slot.LagSeconds <= 0 {
		t.Errorf("status: %+v, %v", report, err)
	}
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	r.until("the all-clear", logged("the standbys that Postgres waits for are back"))
	list, err := r.cfg.standbys(context.Background(), r.conn.PgConn())
	if err != nil || len(list) != 1 || list[0].away() != "" {
		t.Errorf("standbys %+v, %v", list, err)
	}
}
