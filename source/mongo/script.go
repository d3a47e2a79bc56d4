package mongo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// SetupScript is what Init creates, as a script for mongosh: the collections and their indexes. It can be run again.
func (cfg Config) SetupScript() (string, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return "", err
	}
	role, err := RoleScript(cfg, "tailbox")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(store.GrantsComment("//", role, ""))
	for _, c := range cfg.ownCollections() {
		if c.script(&b); c.name == parkedCollection {
			cfg.migrationScript(&b)
		}
	}
	cfg.recordScript(&b)
	for _, c := range cfg.outboxCollections() {
		c.script(&b)
	}
	return b.String(), nil
}

// TableScript makes one collection of an outbox with its indexes, in the database that mongosh uses. It is an error where tailbox makes
// no collections of the shape.
func TableScript(t *outbox.Table) (string, error) {
	if !ownShape(t.Shape) {
		return "", fmt.Errorf("make collection %s: tailbox makes no collections of shape %q", t.Name, t.Shape)
	}
	cfg := Config{Tables: []outbox.Table{*t}}
	var b strings.Builder
	for _, c := range cfg.outboxCollections() {
		c.script(&b)
	}
	return b.String(), nil
}

// script makes the collection and its indexes where they are missing.
func (c *collection) script(b *strings.Builder) {
	fmt.Fprintf(b, "if (!%[1]s.getCollectionNames().includes(%[2]s)) %[1]s.createCollection(%[2]s);\n", inDatabase(c.database), quote(c.name))
	for i := range c.indexes {
		b.WriteString(c.indexCommand(&c.indexes[i]) + ";\n")
	}
}

// inDatabase is a database of that name, "" the present one.
func inDatabase(name string) string {
	if name == "" {
		return "db"
	}
	return "db.getSiblingDB(" + quote(name) + ")"
}

// quote is a text as JavaScript has it.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // cannot be: a string is always marshalled
	}
	return string(text)
}

// indexCommand makes an index.
func (c *collection) indexCommand(x *index) string {
	options := bson.D{{Key: "name", Value: x.name}}
	if x.unique {
		options = append(options, bson.E{Key: "unique", Value: true})
	}
	if x.partial != nil {
		options = append(options, bson.E{Key: "partialFilterExpression", Value: x.partial})
	}
	return fmt.Sprintf("%s.getCollection(%s).createIndex(%s, %s)", inDatabase(c.database), quote(c.name), script(x.keyDocument()), script(options))
}

// script is a document as JavaScript has it.
func script(d bson.D) string {
	raw, err := bson.Marshal(d)
	if err != nil {
		return "{}" // cannot be: it is made of texts and numbers
	}
	text, err := appendJSONDocument(nil, raw, 0)
	if err != nil {
		return "{}"
	}
	return string(text)
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
func (n *need) privilege(actions []string) string {
	return script(bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: n.database}, {Key: "collection", Value: n.collection}}}, {Key: "actions", Value: actions}})
}

// role is the name of the role that RoleScript makes.
func (c *Config) role() string { return "tailbox_" + c.Pipeline }

// grant adds a privilege to that role.
func (c *Config) grant(n *need, actions []string) string {
	return fmt.Sprintf("%s.grantPrivilegesToRole(%s, [%s])", inDatabase("admin"), quote(c.role()), n.privilege(actions))
}

// needs are what a user needs who does nothing but run the relay.
func (c *Config) needs() []need {
	var list []need
	databases := []string{c.Schema}
	for _, own := range c.ownCollections() {
		actions := []string{"find", "insert", "update", "listIndexes"}
		if own.name == parkedCollection { // what the relay knows, and what was asked for, only the owner removes
			actions = append(actions, "remove")
		}
		list = append(list, need{own.database, own.name, actions})
	}
	for i := range c.Tables {
		t := &c.Tables[i]
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
		if t.OnDelivered == outbox.Delete && t.Columns.Status != "" || t.OnDelivered == outbox.Keep && t.Columns.Receipt != "" {
			actions = append(actions, "update") // of what a parked delivery shows
		}
		list = append(list, need{t.Schema, t.Name, actions})
	}
	list = append(list, c.feedbackNeeds()...)
	for _, name := range databases {
		list = append(list, need{name, "", []string{"listCollections"}})
	}
	list = append(list, oplogNeed())
	stream := need{actions: []string{"changeStream", "find"}}
	switch _, database := c.pipeline(false); {
	case len(c.Tables) == 1:
		stream.database, stream.collection = c.Tables[0].Schema, c.Tables[0].Name
	case database != "":
		stream.database = database
	}
	return append(list, stream)
}

// oplogNeed is what shows where the log begins.
func oplogNeed() need { return need{"local", "oplog.rs", []string{"find", "collStats"}} }

// RoleScript makes a role with what a user needs who does nothing but run the relay, as a script for mongosh, and grants it to
// the user.
func RoleScript(cfg Config, user string) (string, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return "", err
	}
	role := cfg.role()
	var privileges []string
	for _, n := range cfg.needs() {
		privileges = append(privileges, "\t"+n.privilege(n.actions))
	}
	admin := inDatabase("admin")
	return fmt.Sprintf("%s.createRole({role: %s, roles: [], privileges: [\n%s\n]});\n%[1]s.grantRolesToUser(%[4]s, [%[2]s]);\n",
		admin, quote(role), strings.Join(privileges, ",\n"), quote(user)), nil
}

// UninstallScript is what Uninstall does, as a script for mongosh. The collections go only where no other pipeline uses them;
// the script leaves that to who runs it.
func (cfg Config) UninstallScript() (string, error) {
	cfg, err := cfg.resolved()
	if err != nil {
		return "", err
	}
	var b, drops strings.Builder
	for _, own := range cfg.ownCollections() {
		field := "pipeline"
		if own.name == checkpointCollection {
			field = "_id"
		}
		coll := fmt.Sprintf("%s.getCollection(%s)", inDatabase(own.database), quote(own.name))
		fmt.Fprintf(&b, "%s.deleteMany(%s);\n", coll, script(bson.D{{Key: field, Value: cfg.Pipeline}}))
		fmt.Fprintf(&drops, "%s.drop();\n", coll)
	}
	return b.String() + "// if no other pipeline uses them:\n" + drops.String(), nil
}
