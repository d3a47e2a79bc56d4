package stream_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/status"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/check"
)

// The slot must not pass the checkpoint of a standby: what is confirmed reaches the server only once the standby has the commit of its checkpoint.
func TestConfirmedOnceStandbyHasCheckpoint(t *testing.T) {
	t.Parallel()
	r, standby := pgtest.StandbyRig(t)
	from := r.Establish()
	x := r.Run(source.Start{From: from})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.Messages(1)
	at, err := pgrepl.ParseLSN(string(resume))
	if err != nil {
		t.Fatal(err)
	}
	if err := standby.Pause(); err != nil {
		t.Fatal(err)
	}
	r.Exec("CREATE TABLE checkpoint AS SELECT 1") // in place of the checkpoint's commit
	r.Src.Confirm(resume)
	heard := func() string {
		return r.Text("SELECT r.reply_time::text FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE s.slot_name = $1", r.Cfg.Slot)
	}
	for range 3 {
		before := heard()
		r.Until("a status update", func() bool { return heard() != before })
	}
	if now := r.Confirmed(); now >= at {
		t.Errorf("confirmed up to %s, though the standby does not have the checkpoint that says %s", now, at)
	}
	if err := standby.Resume(); err != nil {
		t.Fatal(err)
	}
	r.Until("the confirmation", func() bool { return r.Confirmed() >= at })

	// The last one of a soft stop passes, too.
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	_, resume = x.Messages(1)
	r.Src.Confirm(resume)
	if at, err = pgrepl.ParseLSN(string(resume)); err != nil {
		t.Fatal(err)
	}
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	r.Until("the last confirmation", func() bool { return r.Confirmed() >= at })
}

// Delivery stops while a standby is away that the server waits for: the log names its slot.
func TestStandbyAwayIsTold(t *testing.T) {
	t.Parallel()
	r, standby := pgtest.StandbyRig(t)
	r.Run(source.Start{From: r.Establish()})
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	logged := func(text string) func() bool {
		return func() bool {
			r.Mu.Lock()
			defer r.Mu.Unlock()
			return strings.Contains(r.Log.String(), text)
		}
	}
	r.Until("the warning", logged(standby.StandbyName+" has no standby that reads it"))
	pgtest.Found(t, r.CheckAs(r.Cfg), check.Problem, standby.StandbyName+" has no standby that reads it", "take its slot out of synchronized_standby_slots")
	report, err := status.Read(t.Context(), r.Cfg)
	if err != nil || report.Slot == nil || report.Slot.Waiting != standby.StandbyName+" has no standby that reads it" || report.Slot.LagSeconds <= 0 {
		t.Errorf("status: %+v, %v", report, err)
	}
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	r.Until("the all-clear", logged("the standbys that Postgres waits for are back"))
	list, err := upstream.Standbys(context.Background(), &r.Cfg, r.Conn.PgConn())
	if err != nil || len(list) != 1 || list[0].Away() != "" {
		t.Errorf("standbys %+v, %v", list, err)
	}
}
