package setup

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store/migration"
)

// Script is what Init creates, as a script for mongosh: the collections and their indexes. It can be run again.
func Script(cfg conn.Config) (string, error) {
	cfg, err := cfg.Resolved()
	if err != nil {
		return "", err
	}
	role, err := RoleScript(cfg, "tailbox")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(migration.GrantsComment("//", role, ""))
	for _, c := range catalog.Own(&cfg) {
		if collectionScript(&c, &b); c.Name == catalog.Parked {
			migrationScript(&cfg, &b)
		}
	}
	recordScript(&cfg, &b)
	for _, c := range catalog.Outbox(&cfg) {
		collectionScript(&c, &b)
	}
	return b.String(), nil
}

// TableScript makes one collection of an outbox with its indexes, in the database that mongosh uses. It is an error where tailbox makes
// no collections of the shape.
func TableScript(t *outbox.Table) (string, error) {
	if !ownShape(t.Shape) {
		return "", fmt.Errorf("make collection %s: tailbox makes no collections of shape %q", t.Name, t.Shape)
	}
	cfg := conn.Config{Config: source.Config{Tables: []outbox.Table{*t}}}
	var b strings.Builder
	for _, c := range catalog.Outbox(&cfg) {
		collectionScript(&c, &b)
	}
	return b.String(), nil
}

// collectionScript makes the collection and its indexes where they are missing.
func collectionScript(c *catalog.Collection, b *strings.Builder) {
	fmt.Fprintf(b, "if (!%[1]s.getCollectionNames().includes(%[2]s)) %[1]s.createCollection(%[2]s);\n", inDatabase(c.Database), quote(c.Name))
	for i := range c.Indexes {
		b.WriteString(indexCommand(c, &c.Indexes[i]) + ";\n")
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
func indexCommand(c *catalog.Collection, x *catalog.Index) string {
	options := bson.D{{Key: "name", Value: x.Name}}
	if x.Unique {
		options = append(options, bson.E{Key: "unique", Value: true})
	}
	if x.Partial != nil {
		options = append(options, bson.E{Key: "partialFilterExpression", Value: x.Partial})
	}
	return fmt.Sprintf("%s.getCollection(%s).createIndex(%s, %s)", inDatabase(c.Database), quote(c.Name), script(x.KeyDocument()), script(options))
}

// script is a document as JavaScript has it.
func script(d bson.D) string {
	raw, err := bson.Marshal(d)
	if err != nil {
		return "{}" // cannot be: it is made of texts and numbers
	}
	text, err := document.JSON(raw)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// UninstallScript is what Uninstall does, as a script for mongosh. The collections go only where no other pipeline uses them;
// the script leaves that to who runs it.
func UninstallScript(cfg conn.Config) (string, error) {
	cfg, err := cfg.Resolved()
	if err != nil {
		return "", err
	}
	var b, drops strings.Builder
	for _, own := range catalog.Own(&cfg) {
		field := "pipeline"
		if own.Name == catalog.Checkpoints {
			field = "_id"
		}
		coll := fmt.Sprintf("%s.getCollection(%s)", inDatabase(own.Database), quote(own.Name))
		fmt.Fprintf(&b, "%s.deleteMany(%s);\n", coll, script(bson.D{{Key: field, Value: cfg.Pipeline}}))
		fmt.Fprintf(&drops, "%s.drop();\n", coll)
	}
	return b.String() + "// if no other pipeline uses them:\n" + drops.String(), nil
}
