package stream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// A publication takes a table with the inheritance children that there are then. One that is made later would be delivered late and out of
// order, so it is refused like a table that is not published, until init has added it.
func TestInheritanceChildOutsidePublication(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL+";; CREATE TABLE before () INHERITS (a);;"+migrate.TablesIn("").Script(), pgtest.Shape("tailbox", "a"))
	s := &pgtest.StoreRig{Rig: r, Ctx: t.Context()}
	s.Cfg.Start = "now"
	r.Src.SetCheckEvery(50 * time.Millisecond)
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.Exec("INSERT INTO before VALUES ('2', 't', 'p', 'g')")
	r.Exec("CREATE TEMPORARY TABLE passing () INHERITS (a)") // whose rows no other session sees
	ms, resume := x.Messages(2)
	pgtest.Equal(t, "published with the table", pgtest.IDs(ms), "1 2")
	r.Exec(`CREATE TABLE "Child" () INHERITS (before)`)
	const want = `does not hold table "public"."Child", which inherits from public.a`
	x.Fails(source.ErrStop, want)
	r.Run(source.Start{From: resume}).Fails(source.ErrStop, "ADD TABLE "+`"public"."Child"`)
	if problems := pgtest.Levels(s.Check(), check.Problem); !strings.Contains(problems, want) {
		t.Errorf("check: %s", problems)
	}
	r.Exec("UPDATE tailbox_checkpoint SET resume = $2 WHERE pipeline = $1", r.Cfg.Pipeline, string(resume))
	created, err := setup.Init(t.Context(), r.Cfg)
	if err != nil || len(created) != 1 || !strings.Contains(created[0], `"public"."Child"`) {
		t.Errorf("init: %v, %v", created, err)
	}
	if problems := pgtest.Levels(s.Check(), check.Problem); strings.Contains(problems, "Child") {
		t.Errorf("check after init: %s", problems)
	}
	r.Exec(`INSERT INTO "Child" VALUES ('3', 't', 'p', 'g')`)
	r.Exec("INSERT INTO a VALUES ('4', 't', 'p', 'g')")
	ms, _ = r.Run(source.Start{From: resume}).Messages(2)
	pgtest.Equal(t, "published by init", pgtest.IDs(ms), "3 4")
}
