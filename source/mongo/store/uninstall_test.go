package store

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// Uninstall leaves the outbox, refuses while something would be lost, and spares other pipelines.
func TestUninstall(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	s := opened(r)
	if _, _, err := Uninstall(r.Ctx, r.Config, true); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("beside a relay: %v", err)
	}
	m := &outbox.Message{ID: "1", Group: "g", Table: r.Config.Tables[0].String(), Position: outbox.Position{Commit: 1}}
	_, err := s.Settle(r.Ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{{Sink: "kafka", Message: m, State: checkpoint.StateDead, Blocks: true}}})
	r.Must(err)
	r.Must(s.Close(r.Ctx))
	if _, _, err := Uninstall(r.Ctx, r.Config, false); err == nil || !strings.Contains(err.Error(), "1 deliveries are parked") {
		t.Errorf("with a parked delivery: %v", err)
	}
	other := r.Config
	other.Pipeline = "other"
	o, err := Open(r.Ctx, other)
	r.Must(err)
	r.Must(o.Close(r.Ctx))
	for _, cfg := range []conn.Config{r.Config, other} {
		dropped, _, err := Uninstall(r.Ctx, cfg, true)
		if err != nil || len(dropped) == 0 {
			t.Errorf("uninstall: %v, %v", dropped, err)
		}
	}
	names, err := r.Client.Database(r.Config.Schema).ListCollectionNames(r.Ctx, bson.D{})
	r.Must(err)
	mongotest.Equal(t, "left", strings.Join(names, " "), "outbox")
	if dropped, _, err := Uninstall(context.Background(), r.Config, false); err != nil || len(dropped) > 0 {
		t.Errorf("once more: %v, %v", dropped, err)
	}
}
