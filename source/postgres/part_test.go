package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// A publication takes a table with the inheritance children that there are then. One that is made later would be delivered late and out of
// order, so it is refused like a table that is not published, until init has added it.
func TestInheritanceChildOutsidePublication(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL+";; CREATE TABLE before () INHERITS (a);;"+tableNames("").ownTables(), shape("tailbox", "a"))
	s := &storeRig{rig: r, ctx: t.Context()}
	s.cfg.Start = "now"
	r.src.checkEvery = 50 * time.Millisecond
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.exec("INSERT INTO before VALUES ('2', 't', 'p', 'g')")
	r.exec("CREATE TEMPORARY TABLE passing () INHERITS (a)") // whose rows no other session sees
	ms, resume := x.messages(2)
	equal(t, "published with the table", ids(ms), "1 2")
	r.exec(`CREATE TABLE "Child" () INHERITS (before)`)
	const want = `does not hold table "public"."Child", which inherits from public.a`
	x.fails(source.ErrStop, want)
	r.run(source.Start{From: resume}).fails(source.ErrStop, "ADD TABLE "+`"public"."Child"`)
	if problems := levels(s.check(), Problem); !strings.Contains(problems, want) {
		t.Errorf("check: %s", problems)
	}
	r.exec("UPDATE tailbox_checkpoint SET resume = $2 WHERE pipeline = $1", r.cfg.Pipeline, string(resume))
	created, err := r.cfg.Init(t.Context())
	if err != nil || len(created) != 1 || !strings.Contains(created[0], `"public"."Child"`) {
		t.Errorf("init: %v, %v", created, err)
	}
	if problems := levels(s.check(), Problem); strings.Contains(problems, "Child") {
		t.Errorf("check after init: %s", problems)
	}
	r.exec(`INSERT INTO "Child" VALUES ('3', 't', 'p', 'g')`)
	r.exec("INSERT INTO a VALUES ('4', 't', 'p', 'g')")
	ms, _ = r.run(source.Start{From: resume}).messages(2)
	equal(t, "published by init", ids(ms), "3 4")
}
