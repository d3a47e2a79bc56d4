package setup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// Init makes what is missing, once, and then Check has nothing to say.
func TestInit(t *testing.T) {
	t.Parallel()
	named := mongotest.Table("tailbox")
	named.Name, named.Columns.ID = "named", "key_of_mine"
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"), named)
	mongotest.Equal(t, "after init", r.Findings(Check(r.Ctx, r.Config)), "")
	again, err := Init(r.Ctx, r.Config)
	if err != nil || len(again) > 0 {
		t.Errorf("init again: %v, %v", again, err)
	}
	for _, coll := range []string{"named", catalog.Parked} {
		r.Must(r.Client.Database(r.Config.Schema).Collection(coll).Indexes().DropAll(r.Ctx))
	}
	r.Must(r.Collection(0).Drop(r.Ctx))
	mongotest.Equal(t, "without some of it", r.Findings(Check(r.Ctx, r.Config)), `problem: collection shop.tailbox_parked has no index message
problem: collection shop.tailbox_parked has no index lane
problem: collection shop.tailbox_parked has no index due
problem: collection shop.tailbox_parked has no index untried
problem: collection shop.tailbox_parked has no index sent
problem: collection shop.tailbox_parked has no index dead
problem: collection shop.tailbox_parked has no index unfinished
problem: collection shop.outbox does not exist
warning: collection shop.named has no index on key_of_mine
warning: collection shop.named has no index on status, key_of_mine
warning: collection shop.named has no index on idempotency_key`)
	if again, err := Init(r.Ctx, r.Config); err != nil || len(again) != 11 {
		t.Errorf("init again: %v, %v", again, err)
	}
	mongotest.Equal(t, "mended", r.Findings(Check(r.Ctx, r.Config)), "")
}

// TestSharedIDs: documents with one id would be one message, and settled together.
func TestSharedIDs(t *testing.T) {
	t.Parallel()
	named := mongotest.Table("debezium")
	named.Columns.ID, named.OnDelivered = "event", outbox.Delete
	r := newRig(t, servers.SharedMongo(t), named)
	r.Config.Start = "now"
	r.Must(r.Client.Database(r.Config.Schema).Collection(named.Name).Indexes().DropAll(r.Ctx))
	shares := func() bool {
		return strings.Contains(r.Findings(Check(r.Ctx, r.Config)), "have the same event")
	}
	for _, id := range []any{"a", "b", nil, nil} {
		_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "event", Value: id}})
		r.Must(err)
	}
	mongotest.Equal(t, "each has its own", shares(), false)
	_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "event", Value: "a"}})
	r.Must(err)
	mongotest.Equal(t, "two have one", shares(), true)
}

// Check sees what would stop or hold up the relay.
func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "_id", Value: 1.5}})
	r.Must(err)
	mongotest.Equal(t, "an id that is none", r.Findings(Check(r.Ctx, r.Config)), "problem: collection shop.outbox holds 1 documents, and no field tells which were delivered\n"+
		"warning: a document of shop.outbox: the id (field _id) of a document of shop.outbox cannot be read: it is a number with a fraction: "+
		"give the message an id (tailbox dead edit --new-id) or drop it; its document stays in the collection until you delete it")
	_, err = r.Collection(0).DeleteMany(r.Ctx, bson.D{})
	r.Must(err)
	r.Config.Tables[0].OnDelivered = outbox.Mark
	if found := r.Findings(Check(r.Ctx, r.Config)); !strings.Contains(found, "has no field for it") {
		t.Errorf("mark without a field: %s", found)
	}
	r.Config.Tables[0].Name = "view"
	r.Must(r.Client.Database(r.Config.Schema).CreateView(r.Ctx, "view", "outbox", bson.A{}))
	if found := r.Findings(Check(r.Ctx, r.Config)); !strings.Contains(found, "is a view") {
		t.Errorf("a view: %s", found)
	}
	server := servers.Mongo(t, servers.WithMongoStandalone())
	r.Config.URL = server.URL()
	if found := r.Findings(Check(r.Ctx, r.Config)); !strings.Contains(found, "rs.initiate()") {
		t.Errorf("a standalone server: %s", found)
	}
}

// The scripts name everything once, in order, and hold no secret.
func TestScripts(t *testing.T) {
	t.Parallel()
	cfg := conn.Config{Config: source.Config{Pipeline: "orders", URL: "mongodb://u:secret@h/shop", Tables: []outbox.Table{{Name: "outbox", Shape: "tailbox", Columns: mongotest.Table("tailbox").Columns, OnDelivered: outbox.Mark}}}}
	setup, err := Script(cfg)
	if err != nil {
		t.Fatal(err)
	}
	role, err := RoleScript(cfg, "relay")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := UninstallScript(cfg)
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

// Check is content with what RoleScript grants, and names each privilege of it that is missing, with the command that grants it.
func TestCheckNamesEachMissingPrivilege(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoAuth())
	deleted, marked, kept, shown := mongotest.Table("debezium"), mongotest.Table("tailbox"), mongotest.Table("debezium"), mongotest.Table("debezium")
	deleted.Name, marked.Name, kept.Name, shown.Name = "deleted", "marked", "kept", "shown"
	shown.Set = []outbox.SetValue{{State: "dead", Column: "blocked", Value: "1"}} // parked deliveries show in a field of the application's
	marked.OnDelivered, marked.Retention, kept.OnDelivered = outbox.Mark, time.Hour, outbox.Keep
	r := newRig(t, server, deleted, marked, kept, shown)
	admin := r.Client.Database("admin")
	r.Must(mongotest.Least(r.Ctx, r.Client, r.Config.Pipeline, RoleName(&r.Config), Privileges(&r.Config)))
	r.Config.URL = server.URLOf(r.Config.Pipeline, "p")
	fixes := func() (list []string) {
		found, err := Check(r.Ctx, r.Config)
		r.Must(err)
		for _, f := range found {
			if strings.Contains(f.Fix, "grantPrivilegesToRole") {
				list = append(list, f.Fix)
			}
		}
		return list
	}
	mongotest.Equal(t, "with all of it", len(fixes()), 0)
	needs := needs(&r.Config)
	for i := range needs {
		n := &needs[i]
		for _, action := range n.actions {
			if slices.ContainsFunc(needs, func(wider need) bool {
				return wider.String() != n.String() && (wider.database == "" || wider.database == n.database && wider.collection == "") && slices.Contains(wider.actions, action)
			}) {
				continue // a wider privilege brings it
			}
			privilege := bson.A{bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: n.database}, {Key: "collection", Value: n.collection}}}, {Key: "actions", Value: bson.A{action}}}}
			r.Must(admin.RunCommand(r.Ctx, bson.D{{Key: "revokePrivilegesFromRole", Value: RoleName(&r.Config)}, {Key: "privileges", Value: privilege}}).Err())
			missing := []string{action}
			if n.database == oplogNeed().database {
				missing = n.actions
			}
			if found := fixes(); len(found) == 0 || !strings.HasPrefix(found[0], grant(&r.Config, n, missing)) {
				t.Errorf("without %s on %s: %q", action, n, found)
			}
			r.Must(admin.RunCommand(r.Ctx, bson.D{{Key: "grantPrivilegesToRole", Value: RoleName(&r.Config)}, {Key: "privileges", Value: privilege}}).Err())
		}
	}
}
