package mongo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

func (r *rig) findings() string {
	r.t.Helper()
	found, err := r.cfg.Check(r.ctx)
	r.must(err)
	slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(string(a.Level), string(b.Level)) })
	var lines []string
	for _, f := range found {
		if f.Level != Info {
			lines = append(lines, fmt.Sprintf("%s: %s", f.Level, strings.ReplaceAll(f.What, r.cfg.Schema, "shop")))
		}
	}
	return strings.Join(lines, "\n")
}

// Init makes what is missing, once, and then Check has nothing to say.
func TestInit(t *testing.T) {
	t.Parallel()
	named := kitTable("tailbox")
	named.Name, named.Columns.ID = "named", "key_of_mine"
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"), named)
	equal(t, "after init", r.findings(), "")
	again, err := r.cfg.Init(r.ctx)
	if err != nil || len(again) > 0 {
		t.Errorf("init again: %v, %v", again, err)
	}
	for _, coll := range []string{"named", parkedCollection} {
		r.must(r.client.Database(r.cfg.Schema).Collection(coll).Indexes().DropAll(r.ctx))
	}
	r.must(r.collection(0).Drop(r.ctx))
	equal(t, "without some of it", r.findings(), `problem: collection shop.tailbox_parked has no index message
problem: collection shop.tailbox_parked has no index lane
problem: collection shop.tailbox_parked has no index due
problem: collection shop.tailbox_parked has no index untried
problem: collection shop.tailbox_parked has no index sent
problem: collection shop.tailbox_parked has no index unfinished
problem: collection shop.outbox does not exist
warning: collection shop.named has no index on key_of_mine
warning: collection shop.named has no index on status, key_of_mine
warning: collection shop.named has no index on idempotency_key`)
	if again, err := r.cfg.Init(r.ctx); err != nil || len(again) != 10 {
		t.Errorf("init again: %v, %v", again, err)
	}
	equal(t, "mended", r.findings(), "")
}

// Check sees what would stop or hold up the relay.
func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	_, err := r.collection(0).InsertOne(r.ctx, bson.D{{Key: "_id", Value: 1.5}})
	r.must(err)
	equal(t, "an id that is none", r.findings(), "problem: collection shop.outbox holds 1 documents, and no field tells which were delivered\n"+
		"warning: a document of shop.outbox: the id (field _id) of a document of shop.outbox cannot be read: it is a number with a fraction: "+
		"give the message an id (tailbox dead edit --new-id) or drop it; its document stays in the collection until you delete it")
	_, err = r.collection(0).DeleteMany(r.ctx, bson.D{})
	r.must(err)
	r.cfg.Tables[0].OnDelivered = outbox.Mark
	if found := r.findings(); !strings.Contains(found, "has no field for it") {
		t.Errorf("mark without a field: %s", found)
	}
	r.cfg.Tables[0].Name = "view"
	r.must(r.client.Database(r.cfg.Schema).CreateView(r.ctx, "view", "outbox", bson.A{}))
	if found := r.findings(); !strings.Contains(found, "is a view") {
		t.Errorf("a view: %s", found)
	}
	server := servers.Mongo(t, servers.WithMongoStandalone())
	r.cfg.URL = server.URL()
	if found := r.findings(); !strings.Contains(found, "rs.initiate()") {
		t.Errorf("a standalone server: %s", found)
	}
}

// The role that RoleScript makes is enough for everything that a relay does, and Check says so; without it, Check names what is
// missing.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoAuth())
	second := kitTable("tailbox")
	second.Name = "second"
	for i, tables := range [][]outbox.Table{{kitTable("debezium")}, {kitTable("debezium"), second}} {
		r := newRig(t, server, tables...)
		admin := r.client.Database("admin")
		user := fmt.Sprintf("relay%d", i)
		var privileges bson.A
		for _, n := range r.cfg.needs() {
			privileges = append(privileges, bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: n.database}, {Key: "collection", Value: n.collection}}},
				{Key: "actions", Value: n.actions}})
		}
		r.must(admin.RunCommand(r.ctx, bson.D{{Key: "createRole", Value: user}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}}).Err())
		r.must(admin.RunCommand(r.ctx, bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{}}}).Err())
		r.cfg.URL = server.URLOf(user, "p")
		if found := r.findings(); !strings.Contains(found, "the user has no changeStream, find on") {
			t.Errorf("a user without rights: %s", found)
		}
		if _, err := r.cfg.Open(r.ctx); err == nil {
			t.Error("a store was opened without rights")
		}
		r.must(admin.RunCommand(r.ctx, bson.D{{Key: "grantRolesToUser", Value: user}, {Key: "roles", Value: bson.A{user}}}).Err())
		equal(t, "findings", r.findings(), "")
		r.src = New(r.cfg)
		from := r.establish()
		r.insert(r.ctx, 0, "1", nil)
		ms, _ := r.read(source.Start{From: from, Log: 1}).messages(1)
		old := r.open()
		r.lease(bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}})
		r.must(old.begin(0))
		r.must(old.proveLease(old.in(r.ctx), nil))
		s := r.open() // ends the old one's session
		out, err := s.Settle(r.ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: ms[0].Table, ID: ms[0].ID, Position: ms[0].Position, Txn: ms[0].Txn}},
			Park: []checkpoint.Parked{{Sink: "kafka", Message: ms[0], State: checkpoint.StateRetrying, Blocks: true, Due: true}}})
		if err != nil || out.Gone > 0 {
			t.Errorf("settle: %+v, %v", out, err)
		}
		if due, _, err := s.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil || len(due) != 1 {
			t.Errorf("due: %v, %v", due, err)
		}
		if _, err := s.Pending(r.ctx, "", 10); err != nil {
			t.Error(err)
		}
		report, err := Status(r.ctx, r.cfg)
		if err != nil || report.Holder == nil || report.Oplog == nil || len(report.Sinks) != 1 || report.Sinks[0].Retrying != 1 || report.Sinks[0].UndeliveredSeconds <= 0 {
			t.Errorf("status: %+v, %v", report, err)
		}
	}
}

// Uninstall leaves the outbox, refuses while something would be lost, and spares other pipelines.
func TestUninstall(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	s := r.open()
	if _, _, err := r.cfg.Uninstall(r.ctx, true); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("beside a relay: %v", err)
	}
	m := &outbox.Message{ID: "1", Group: "g", Table: r.cfg.Tables[0].String(), Position: outbox.Position{Commit: 1}}
	_, err := s.Settle(r.ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{{Sink: "kafka", Message: m, State: checkpoint.StateDead, Blocks: true}}})
	r.must(err)
	r.must(s.Close(r.ctx))
	if _, _, err := r.cfg.Uninstall(r.ctx, false); err == nil || !strings.Contains(err.Error(), "1 deliveries are parked") {
		t.Errorf("with a parked delivery: %v", err)
	}
	other := r.cfg
	other.Pipeline = "other"
	o, err := other.Open(r.ctx)
	r.must(err)
	r.must(o.Close(r.ctx))
	for _, cfg := range []Config{r.cfg, other} {
		dropped, _, err := cfg.Uninstall(r.ctx, true)
		if err != nil || len(dropped) == 0 {
			t.Errorf("uninstall: %v, %v", dropped, err)
		}
	}
	names, err := r.client.Database(r.cfg.Schema).ListCollectionNames(r.ctx, bson.D{})
	r.must(err)
	equal(t, "left", strings.Join(names, " "), "outbox")
	if dropped, _, err := r.cfg.Uninstall(context.Background(), false); err != nil || len(dropped) > 0 {
		t.Errorf("once more: %v, %v", dropped, err)
	}
}

// The scripts name everything once, in order, and hold no secret.
func TestScripts(t *testing.T) {
	t.Parallel()
	cfg := Config{Pipeline: "orders", URL: "mongodb://u:secret@h/shop", Tables: []outbox.Table{{Name: "outbox", Shape: "tailbox", Columns: kitTable("tailbox").Columns, OnDelivered: outbox.Mark}}}
	setup, err := cfg.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	role, err := RoleScript(cfg, "relay")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := cfg.UninstallScript()
	if err != nil {
		t.Fatal(err)
	}
	// The set-up names the privileges, too, as a comment.
	for _, of := range []string{setup, role} {
		if want := `{"resource":{"db":"shop","collection":"outbox"},"actions":["changeStream","find"]}`; strings.Count(of, want) != 1 {
			t.Errorf("not there, or more than once: %s\n%s", want, of)
		}
	}
	for _, want := range []string{
		`if (!db.getSiblingDB("shop").getCollectionNames().includes("tailbox_parked")) db.getSiblingDB("shop").createCollection("tailbox_parked");`,
		`db.getSiblingDB("shop").getCollection("tailbox_parked").createIndex({"pipeline":1,"sink":1,"next_attempt_at":1}, {"name":"due","partialFilterExpression":{"next_attempt_at":{"$exists":true}}});`,
		`db.getSiblingDB("shop").getCollection("outbox").createIndex({"status":1,"_id":1}, {"name":"tailbox_pending"});`,
		`grantRolesToUser("relay", ["tailbox_orders"]);`,
		`db.getSiblingDB("shop").getCollection("tailbox_checkpoint").deleteMany({"_id":"orders"});`,
	} {
		if strings.Count(setup+role+gone, want) != 1 {
			t.Errorf("not there, or more than once: %s\n%s%s%s", want, setup, role, gone)
		}
	}
	if strings.Contains(setup+role+gone, "secret") {
		t.Error("a script holds the password")
	}
}

// A gap names the collections that the next start cannot sweep.
func TestGapNamesWhatNothingJudges(t *testing.T) {
	t.Parallel()
	kept, deleted := kitTable("debezium"), kitTable("debezium")
	kept.Name, kept.OnDelivered, deleted.Name = "kept", outbox.Keep, "deleted"
	r := newRig(t, servers.SharedMongo(t), kitTable("tailbox"), kept, deleted)
	st, err := r.cfg.Open(r.ctx)
	r.must(err)
	r.must(st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "another/1", Resume: r.establish(), Log: 1, LastCommit: 1}))
	r.must(st.Close(r.ctx))
	gap, err := r.cfg.Gap(r.ctx)
	r.must(err)
	if gap == nil || len(gap.Unjudged) != 1 || gap.Unjudged[0] != r.cfg.Schema+".kept" {
		t.Errorf("gap %+v, want %s.kept unjudged", gap, r.cfg.Schema)
	}
}

// Check is content with what RoleScript grants, and names each privilege of it that is missing, with the command that grants it.
func TestCheckNamesEachMissingPrivilege(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoAuth())
	deleted, marked, kept := kitTable("debezium"), kitTable("tailbox"), kitTable("debezium")
	deleted.Name, marked.Name, kept.Name = "deleted", "marked", "kept"
	marked.OnDelivered, marked.Retention, kept.OnDelivered = outbox.Mark, time.Hour, outbox.Keep
	r := newRig(t, server, deleted, marked, kept)
	admin := r.client.Database("admin")
	r.must(least(r.ctx, r.client, &r.cfg))
	r.cfg.URL = server.URLOf(r.cfg.Pipeline, "p")
	cures := func() (list []string) {
		found, err := r.cfg.Check(r.ctx)
		r.must(err)
		for _, f := range found {
			if strings.Contains(f.Cure, "grantPrivilegesToRole") {
				list = append(list, f.Cure)
			}
		}
		return list
	}
	equal(t, "with all of it", len(cures()), 0)
	needs := r.cfg.needs()
	for i := range needs {
		n := &needs[i]
		for _, action := range n.actions {
			if slices.ContainsFunc(needs, func(wider need) bool {
				return wider.String() != n.String() && (wider.database == "" || wider.database == n.database && wider.collection == "") && slices.Contains(wider.actions, action)
			}) {
				continue // a wider privilege brings it
			}
			privilege := bson.A{bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: n.database}, {Key: "collection", Value: n.collection}}}, {Key: "actions", Value: bson.A{action}}}}
			r.must(admin.RunCommand(r.ctx, bson.D{{Key: "revokePrivilegesFromRole", Value: r.cfg.role()}, {Key: "privileges", Value: privilege}}).Err())
			missing := []string{action}
			if n.database == oplogNeed().database {
				missing = n.actions
			}
			if found := cures(); len(found) == 0 || !strings.HasPrefix(found[0], r.cfg.grant(n, missing)) {
				t.Errorf("without %s on %s: %q", action, n, found)
			}
			r.must(admin.RunCommand(r.ctx, bson.D{{Key: "grantPrivilegesToRole", Value: r.cfg.role()}, {Key: "privileges", Value: privilege}}).Err())
		}
	}
}
