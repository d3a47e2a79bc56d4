package mongo_test

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A gap names the collections that the next start cannot sweep.
func TestGapNamesWhatNothingJudges(t *testing.T) {
	t.Parallel()
	kept, deleted := mongotest.Table("debezium"), mongotest.Table("debezium")
	kept.Name, kept.OnDelivered, deleted.Name = "kept", outbox.Keep, "deleted"
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("tailbox"), kept, deleted)
	st, err := store.Open(r.Ctx, r.Config)
	r.Must(err)
	r.Must(st.Save(r.Ctx, &checkpoint.Checkpoint{SourceID: "another/1", Resume: r.Establish(), Log: 1, LastCommit: 1}))
	r.Must(st.Close(r.Ctx))
	gap, err := mongo.Config(r.Config).Gap(r.Ctx)
	r.Must(err)
	if gap == nil || len(gap.Unjudged) != 1 || gap.Unjudged[0] != r.Config.Schema+".kept" {
		t.Errorf("gap %+v, want %s.kept unjudged", gap, r.Config.Schema)
	}
}
