package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// The role that RoleScript makes is enough for everything that a relay does, and Check says so; without it, Check names what is
// missing.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoAuth())
	second := mongotest.Table("tailbox")
	second.Name = "second"
	for i, tables := range [][]outbox.Table{{mongotest.Table("debezium")}, {mongotest.Table("debezium"), second}} {
		r := newRig(t, server, tables...)
		admin := r.Client.Database("admin")
		user := fmt.Sprintf("relay%d", i)
		r.Must(admin.RunCommand(r.Ctx, bson.D{{Key: "createRole", Value: user}, {Key: "privileges", Value: setup.Privileges(&r.Config)}, {Key: "roles", Value: bson.A{}}}).Err())
		r.Must(admin.RunCommand(r.Ctx, bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{}}}).Err())
		r.Config.URL = server.URLOf(user, "p")
		if found := r.Findings(setup.Check(r.Ctx, r.Config)); !strings.Contains(found, "the user has no changeStream, find on") {
			t.Errorf("a user without rights: %s", found)
		}
		if _, err := Open(r.Ctx, r.Config); err == nil {
			t.Error("a store was opened without rights")
		}
		r.Must(admin.RunCommand(r.Ctx, bson.D{{Key: "grantRolesToUser", Value: user}, {Key: "roles", Value: bson.A{user}}}).Err())
		mongotest.Equal(t, "findings", r.Findings(setup.Check(r.Ctx, r.Config)), "")
		r.Source = stream.New(r.Config)
		from := r.Establish()
		r.Insert(r.Ctx, 0, "1", nil)
		ms, _ := r.Read(source.Start{From: from, Log: 1}).Messages(1)
		old := opened(r)
		r.SetLease(bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}})
		r.Must(old.lease.Begin(0))
		r.Must(old.lease.Prove(old.lease.In(r.Ctx), nil))
		s := opened(r) // ends the old one's session
		out, err := s.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: ms[0].Table, ID: ms[0].ID, Position: ms[0].Position, Txn: ms[0].Txn}},
			Park: []checkpoint.Parked{{Sink: "kafka", Message: ms[0], State: checkpoint.StateRetrying, Blocks: true, Due: true}}})
		if err != nil || out.Gone > 0 {
			t.Errorf("settle: %+v, %v", out, err)
		}
		if due, _, err := s.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil || len(due) != 1 {
			t.Errorf("due: %v, %v", due, err)
		}
		if _, err := s.Pending(r.Ctx, "", 10); err != nil {
			t.Error(err)
		}
		report, err := ReadStatus(r.Ctx, r.Config)
		if err != nil || report.Holder == nil || report.Oplog == nil || len(report.Sinks) != 1 || report.Sinks[0].Retrying != 1 || report.Sinks[0].UndeliveredSeconds <= 0 {
			t.Errorf("status: %+v, %v", report, err)
		}
	}
}
