package postgres

import (
	osexec "os/exec"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// whileDown stops the rig's server, does something, and starts it again.
func (r *rig) whileDown(stop func() error, do func()) {
	r.t.Helper()
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	do()
	if err := r.pg.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.conn = r.connect()
}

func (r *rig) copyTree(from, to string) {
	r.t.Helper()
	for _, args := range [][]string{{"rm", "-rf", to}, {"cp", "-a", from, to}} {
		if out, err := osexec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// A snapshot of the volume that is started as it is has the same slot, system and timeline. Positions get a new Log: for a process that knows nothing of
// before, since the server was started meanwhile; for one that lived through it, since the log ends before what it has read.
func TestRestoredVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Postgres(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	id := r.examine("", "").SourceID
	snapshot := r.pg.DataDir + ".snapshot"
	r.whileDown(r.pg.Kill, func() { r.copyTree(r.pg.DataDir, snapshot) })

	restarted := r.examine(id, from)
	if restarted.Lost != "" || restarted.Moved || restarted.SourceID == id {
		t.Errorf("a process that lived through a restart examined %+v, want the same log and another start", restarted)
	}
	stranger := New(r.cfg)
	if e, err := stranger.Examine(t.Context(), id, from); err != nil || e.Lost != "" || !e.Moved || e.SourceID != restarted.SourceID {
		t.Errorf("a process that knows nothing of the restart examined %+v, %v, want a new log", e, err)
	}
	if e, err := stranger.Examine(t.Context(), restarted.SourceID, from); err != nil || e.Lost != "" || e.Moved {
		t.Errorf("the same process examined %+v, %v once more, want the same log", e, err)
	}
	if e := r.examine(id[:len(id)-len("@")-len(parseServerID(id).started)], from); e.Lost != "" || e.Moved {
		t.Errorf("with a checkpoint of an older version it examined %+v, want the same log", e)
	}

	x := r.run(source.Start{From: from})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	ms, _ := x.messages(1)
	r.whileDown(r.pg.Kill, func() { r.copyTree(snapshot, r.pg.DataDir) })
	if err := x.wait(); err == nil {
		t.Error("Run did not fail when the server was killed")
	}
	e := r.examine(restarted.SourceID, from)
	if e.Lost != "" || !e.Moved || e.Shared >= ms[0].Position.Commit {
		t.Errorf("a process that lived through the restore examined %+v, want a new log that shares nothing from %d on", e, ms[0].Position.Commit)
	}
	if e := r.examine(e.SourceID, from); e.Lost != "" || e.Moved {
		t.Errorf("after that it examined %+v, want the same log", e)
	}
}
