package upstream_test

import (
	osexec "os/exec"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/test/servers"
)

func copyTree(r *pgtest.Rig, from, to string) {
	r.T.Helper()
	for _, args := range [][]string{{"rm", "-rf", to}, {"cp", "-a", from, to}} {
		if out, err := osexec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.T.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// A snapshot of the volume that is started as it is has the same slot, system and timeline. Positions get a new Log: for a process that knows nothing of
// before, since the server was started meanwhile; for one that lived through it, since the log ends before what it has read.
func TestRestoredVolume(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Postgres(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	id := examine(r, "", "").SourceID
	snapshot := r.PG.DataDir + ".snapshot"
	r.WhileDown(r.PG.Kill, func() { copyTree(r, r.PG.DataDir, snapshot) })

	restarted := examine(r, id, from)
	if restarted.Lost != "" || restarted.Moved || restarted.SourceID == id {
		t.Errorf("a process that lived through a restart examined %+v, want the same log and another start", restarted)
	}
	stranger := stream.New(r.Cfg)
	if e, err := stranger.Examine(t.Context(), id, from); err != nil || e.Lost != "" || !e.Moved || e.SourceID != restarted.SourceID {
		t.Errorf("a process that knows nothing of the restart examined %+v, %v, want a new log", e, err)
	}
	if e, err := stranger.Examine(t.Context(), restarted.SourceID, from); err != nil || e.Lost != "" || e.Moved {
		t.Errorf("the same process examined %+v, %v once more, want the same log", e, err)
	}
	if e := examine(r, id[:len(id)-len("@")-len(upstream.ParseID(id).Started)], from); e.Lost != "" || e.Moved {
		t.Errorf("with a checkpoint of an older version it examined %+v, want the same log", e)
	}

	x := r.Run(source.Start{From: from})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	ms, _ := x.Messages(1)
	r.WhileDown(r.PG.Kill, func() { copyTree(r, snapshot, r.PG.DataDir) })
	if err := x.Wait(); err == nil {
		t.Error("Run did not fail when the server was killed")
	}
	e := examine(r, restarted.SourceID, from)
	if e.Lost != "" || !e.Moved || e.Shared >= ms[0].Position.Commit {
		t.Errorf("a process that lived through the restore examined %+v, want a new log that shares nothing from %d on", e, ms[0].Position.Commit)
	}
	if e := examine(r, e.SourceID, from); e.Lost != "" || e.Moved {
		t.Errorf("after that it examined %+v, want the same log", e)
	}
}
