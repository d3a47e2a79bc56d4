package setup

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/update"
)

// feedbackNeeds are the rights that feedback takes.
func feedbackNeeds(cfg *conn.Config) []need {
	var list []need
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		for _, kind := range outbox.Outcomes() {
			u, err := update.Parse(t.Feedback[kind])
			if t.Feedback[kind] == "" || err != nil {
				continue
			}
			actions := []string{"find", "update"}
			if u.Upsert {
				actions = append(actions, "insert")
			}
			list = append(list, need{t.Schema, u.Collection, actions})
		}
	}
	return list
}

// A need is what the relay's user must be allowed to do. An empty name stands for all.
type need struct {
	database, collection string
	actions              []string
}

func (n *need) String() string {
	switch {
	case n.database == "":
		return "all databases"
	case n.collection == "":
		return "database " + n.database
	}
	return n.database + "." + n.collection
}

// privilege is the privilege to do something of it, as a role holds it.
func (n *need) privilege(actions []string) bson.D {
	return bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: n.database}, {Key: "collection", Value: n.collection}}}, {Key: "actions", Value: actions}}
}

// RoleName is the name of the role that RoleScript makes.
func RoleName(cfg *conn.Config) string { return "tailbox_" + cfg.Pipeline }

// grant adds a privilege to that role.
func grant(cfg *conn.Config, n *need, actions []string) string {
	return fmt.Sprintf("%s.grantPrivilegesToRole(%s, [%s])", inDatabase("admin"), quote(RoleName(cfg)), script(n.privilege(actions)))
}

// needs are what a user needs who does nothing but run the relay.
func needs(cfg *conn.Config) []need {
	var list []need
	databases := []string{cfg.Schema}
	for _, own := range catalog.Own(cfg) {
		actions := []string{"find", "insert", "update", "listIndexes"}
		if own.Name == catalog.Parked { // what the relay knows, and what was asked for, only the owner removes
			actions = append(actions, "remove")
		}
		list = append(list, need{own.Database, own.Name, actions})
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if !slices.Contains(databases, t.Schema) {
			databases = append(databases, t.Schema)
		}
		actions := []string{"find", "listIndexes"}
		switch t.OnDelivered {
		case outbox.Delete:
			actions = append(actions, "remove")
		case outbox.Mark:
			actions = append(actions, "update")
			if t.Retention > 0 {
				actions = append(actions, "remove")
			}
		}
		if t.OnDelivered == outbox.Delete && t.ShowsParked() || t.OnDelivered == outbox.Keep && t.Columns.Receipt != "" {
			actions = append(actions, "update") // of what a parked delivery shows
		}
		if t.Writes {
			actions = append(actions, "insert")
		}
		list = append(list, need{t.Schema, t.Name, actions})
	}
	list = append(list, feedbackNeeds(cfg)...)
	for _, name := range databases {
		list = append(list, need{name, "", []string{"listCollections"}})
	}
	list = append(list, oplogNeed())
	stream := need{actions: []string{"changeStream", "find"}}
	switch database := cfg.CommonDatabase(); {
	case len(cfg.Tables) == 1:
		stream.database, stream.collection = cfg.Tables[0].Schema, cfg.Tables[0].Name
	case database != "":
		stream.database = database
	}
	return append(list, stream)
}

// Privileges are those of the role that RoleScript makes.
func Privileges(c *conn.Config) bson.A {
	var list bson.A
	for _, n := range needs(c) {
		list = append(list, n.privilege(n.actions))
	}
	return list
}

// oplogNeed is what shows where the log begins.
func oplogNeed() need { return need{"local", "oplog.rs", []string{"find", "collStats"}} }

// RoleScript makes a role with what a user needs who does nothing but run the relay, as a script for mongosh, and grants it to
// the user.
func RoleScript(cfg conn.Config, user string) (string, error) {
	cfg, err := cfg.Resolved()
	if err != nil {
		return "", err
	}
	role := RoleName(&cfg)
	var privileges []string
	for _, n := range needs(&cfg) {
		privileges = append(privileges, "\t"+script(n.privilege(n.actions)))
	}
	admin := inDatabase("admin")
	return fmt.Sprintf("%s.createRole({role: %s, roles: [], privileges: [\n%s\n]});\n%[1]s.grantRolesToUser(%[4]s, [%[2]s]);\n",
		admin, quote(role), strings.Join(privileges, ",\n"), quote(user)), nil
}
