package propose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store/report"
)

// Unknown stands where tailbox cannot start before somebody has answered a question.
const Unknown = "???"

// A Proposal is how a table could be configured.
type Proposal struct {
	Table, Shape string
	Columns      []Setting
	Words        []Setting
	// Rest are the other keys of the table.
	Rest []Setting
	// Set are the columns that show a state.
	Set []Setting
	// Questions are what nobody but the owner of the table can tell.
	Questions []string
	// Unused are columns that tailbox does not look at.
	Unused []string
}

// A Setting is a key of the configuration with its value, and why.
type Setting struct {
	Key, Value, Why string
}

// chooser makes a proposal.
type chooser struct {
	Proposal
	t    *report.Table
	used map[string]bool
	// by are the columns by role; group are those of the group.
	by    map[string]*report.Column
	group []*report.Column
}

// Of proposes how to configure a table.
func Of(t *report.Table) *Proposal {
	c := &chooser{t: t, used: map[string]bool{}, by: map[string]*report.Column{}}
	c.Table, c.Shape = qualified(t.Schema, t.Name), "tailbox"
	if l := libraryOf(t); l != nil && l.page == "" {
		c.question("This seems to be the table of %s, which sends these messages itself: docs/coming-from/README.md. With this configuration they would go out twice.", l.name)
	} else if l != nil {
		c.question("This seems to be the table of %s. Begin with the configuration of docs/coming-from/%s.md, not with this one: the page knows what the columns mean, and what becomes of the library.", l.name, l.page)
	}
	if t.Parent != "" {
		c.question("This is one partition of %s, and tailbox would read no other. If it is to read them all, run tailbox init --from-table %s.", t.Parent, t.Parent)
	}
	c.chooseID()
	for _, r := range roles() {
		find := c.find
		if slices.Contains(writtenKeys(), r.key) {
			find = c.findWritable
		}
		if found := find(strings.Fields(r.names), r.classes, r.fits); found != nil && c.by[r.key] == nil {
			c.by[r.key] = found
			c.used[found.Name] = true
		}
	}
	c.dropSharedKey()
	c.chooseGroup()
	c.chooseSeq()
	if c.debezium() {
		c.Shape = "debezium"
		c.question("Debezium's options table.field.event.* and table.fields.additional.placement are not in the table: if you have the connector's configuration, use tailbox import debezium.")
		c.leave(map[string]bool{"id": true, "type": true, "aggregatetype": true, "aggregateid": true, "payload": true})
		if trace := c.column("tracingspancontext"); trace != nil {
			c.question("%s holds the trace of the program that wrote the message. If consumers are to have it, write router: {tracing.span.context.field: %s} beside the table's name.", trace.Name, trace.Name)
		}
	} else {
		c.list()
		c.leave(c.used)
	}
	c.settle()
	c.ask()
	if len(c.Unused) > 0 {
		c.question("tailbox does not look at %s. If consumers need what one holds, send it as a header or in an envelope: docs/routing.md, \"Placements\". "+
			"If one says that a row must not go out, has to wait, or belongs to another program, docs/tables.md, \"Your own table\", has the way.", strings.Join(c.Unused, ", "))
	}
	c.question("Stop the program that delivered these messages before, and whatever cleans the table for it, before tailbox run.")
	return &c.Proposal
}

// dropSharedKey leaves out a column of idempotency keys if several messages may have one: an endpoint drops the second of them.
func (c *chooser) dropSharedKey() {
	key := c.by["idempotency_key"]
	if key == nil || slices.Contains(c.single(), key) {
		return
	}
	delete(c.by, "idempotency_key")
	delete(c.used, key.Name)
	c.question("Does each message have a value of its own in %s? If so, and if endpoints are to have it as the header Idempotency-Key, write idempotency_key: %s. An endpoint drops a message whose key it has seen.", key.Name, quoted(key.Name))
}

// debezium reports whether it is the table of Debezium's event router as it is made for that, with nothing that tells what was delivered.
func (c *chooser) debezium() bool {
	named := func(key string) bool { return c.by[key] != nil && c.by[key].Name == key }
	return named("id") && named("payload") && c.column("aggregatetype") != nil && c.column("aggregateid") != nil && c.by["status"] == nil && c.by["delivered_at"] == nil && c.telltale() == nil
}

func (c *chooser) question(format string, args ...any) {
	c.Questions = append(c.Questions, fmt.Sprintf(format, args...))
}

// find returns the column with the most telling name that has no role yet.
func (c *chooser) find(names []string, classes []report.Class, fits func(*report.Column) bool) *report.Column {
	for _, name := range names {
		for i := range c.t.Columns {
			column := &c.t.Columns[i]
			if plain(column.Name) == name && !c.used[column.Name] && slices.Contains(classes, column.Class) && (fits == nil || fits(column)) {
				return column
			}
		}
	}
	return nil
}

// findWritable is find for a column that the relay is to write.
func (c *chooser) findWritable(names []string, classes []report.Class, fits func(*report.Column) bool) *report.Column {
	return c.find(names, classes, func(column *report.Column) bool { return !column.Generated && (fits == nil || fits(column)) })
}

// unused returns the first column that has no role and fits, which is also told its plain name.
func (c *chooser) unused(fits func(column *report.Column, name string) bool) *report.Column {
	for i := range c.t.Columns {
		if column := &c.t.Columns[i]; !c.used[column.Name] && fits(column, plain(column.Name)) {
			return column
		}
	}
	return nil
}

func (c *chooser) column(name string) *report.Column {
	for i := range c.t.Columns {
		if c.t.Columns[i].Name == name {
			return &c.t.Columns[i]
		}
	}
	return nil
}

// single lists the columns by which alone a row can be found, that of the primary key first.
func (c *chooser) single() (all []*report.Column) {
	for _, unique := range c.t.Unique {
		if len(unique) == 1 {
			all = append(all, c.column(unique[0]))
		}
	}
	return all
}

const idNames = "messageid eventid eventidentifier messageuuid eventuuid uuid msgid id outboxid"

func (c *chooser) chooseID() {
	classes := []report.Class{report.UUID, report.Text, report.Number, report.Binary}
	all := slices.DeleteFunc(c.single(), func(column *report.Column) bool { return !column.NotNull || !slices.Contains(classes, column.Class) })
	named := c.find(strings.Fields(idNames), classes, nil)
	if len(all) == 0 {
		if named == nil {
			c.question("No column alone identifies a row. Add one that the server fills, with a unique index, and name it as id: docs/tables.md, \"A table without an id\", has the statement.")
			return
		}
		c.by["id"], c.used[named.Name] = named, true
		if slices.ContainsFunc(c.t.Unique, func(columns []string) bool { return columns[0] == named.Name }) {
			c.question("No two rows may have the same %s, and none NULL. Are they unique alone?", named.Name)
		} else {
			c.question("%s has no index of its own, so that each delivered row costs a look at the whole table. Create one, unique if possible. No two rows may have the same %s, and none NULL.", named.Name, named.Name)
		}
		return
	}
	id := all[0]
	for _, other := range all[1:] {
		if id.Numbered && among(idNames, other.Name) {
			id = other // what consumers can recognise
		}
	}
	if !c.t.Primary && !among(idNames, id.Name) {
		c.question("%s is unique. Does it identify a message? If not, name another column as id.", id.Name)
	}
	c.by["id"], c.used[id.Name] = id, true
	if id.Numbered && len(all) == 1 {
		if other := c.find(strings.Fields("messageid eventid messageuuid eventuuid uuid"), []report.Class{report.UUID, report.Text}, nil); other != nil {
			c.question("Consumers see %s as the id of a message. If they should see %s, create a unique index on it and write id: %s.", id.Name, other.Name, quoted(other.Name))
		}
	}
}

func (c *chooser) chooseGroup() {
	classes := []report.Class{report.Text, report.UUID, report.Number, report.Binary}
	for _, names := range groupNames() {
		c.group = nil
		for _, name := range names {
			// A stream's number is a place in it.
			if found := c.find([]string{name}, classes, func(f *report.Column) bool { return name != "streamid" || f.Class != report.Number }); found != nil {
				c.group = append(c.group, found)
			}
		}
		if len(c.group) == len(names) {
			break
		}
		c.group = nil
	}
	for _, column := range c.group {
		c.used[column.Name] = true
	}
	key := c.find(strings.Fields("messagekey key kafkakey"), classes, nil)
	switch {
	case key != nil:
		c.used[key.Name] = true
	case len(c.group) > 0:
		key = c.group[len(c.group)-1]
	default:
		return
	}
	c.by["key"] = key
	if topic := c.by["topic"]; len(c.group) == 0 && topic != nil {
		c.group = []*report.Column{topic, key}
		c.question("Messages with the same %s and %s keep their order. If others belong together, name what they have in common as group, or null for no order.", topic.Name, key.Name)
	}
	if topic := c.column("aggregatetype"); topic != nil && c.by["topic"] == nil {
		c.by["topic"] = topic
	} else if len(c.group) == 2 && c.by["topic"] == nil {
		c.question("No column names the topic, so it is the type. If topics go by %s, write topic: %s under columns.", c.group[0].Name, quoted(c.group[0].Name))
	}
}

// chooseSeq takes a column that the server numbers for the order of rows that tailbox does not find in the log. Without it, those of one second may go in
// the order of random ids.
func (c *chooser) chooseSeq() {
	if c.by["seq"] != nil {
		return
	}
	if id := c.by["id"]; id != nil && id.Numbered && id.Class == report.Number {
		c.by["seq"] = id // a time may be that of the transaction's start, or of the application's clock
		return
	}
	numbered := c.unused(func(column *report.Column, _ string) bool {
		return column.Numbered && column.NotNull && column.Class == report.Number
	})
	if numbered != nil {
		c.by["seq"], c.used[numbered.Name] = numbered, true
	}
}

// list writes the columns down. A column of the table that the shape would take for something else is taken away from it.
func (c *chooser) list() {
	shape, _ := outbox.ShapeNamed("tailbox")
	for _, key := range outbox.ColumnNames() {
		found := c.by[key]
		switch field := shape.Columns.Field(key); {
		case key == "group":
			c.listGroup(shape.Columns.Group)
		case found != nil && c.doubtful(key, found):
			c.perhaps(key, found.Name)
		case found != nil:
			c.Columns = append(c.Columns, Setting{key, quoted(found.Name), describe(key, found)})
		case key == "id" || key == "payload":
			c.Columns = append(c.Columns, Setting{key, `"` + Unknown + `"`, "see the questions"})
		case key == "type":
			c.Columns = append(c.Columns, Setting{key, "null", "no column looks like one"})
		case field != nil && c.column(*field) != nil:
			c.Columns = append(c.Columns, Setting{key, "null", whyNot(c.column(*field))})
		}
	}
}

// doubtful reports whether a question has to be answered before tailbox can take a column for a key.
func (c *chooser) doubtful(key string, found *report.Column) bool {
	switch key {
	case "id": // such as the numbers of each tenant
		return !(found.NotNull && slices.Contains(c.single(), found)) && (found.Class == report.Number || found.Nulls > 0)
	case "type":
		return found.Nulls > 0
	case "payload":
		return found.Nulls > 0 || plain(found.Name) != "payload" && c.otherBody() != nil
	}
	return false
}

// leave lists the columns that tailbox does not read: all but some.
func (c *chooser) leave(read map[string]bool) {
	for i := range c.t.Columns {
		if name := c.t.Columns[i].Name; !read[name] {
			c.Unused = append(c.Unused, name)
		}
	}
}

func (c *chooser) listGroup(byShape []string) {
	var names []string
	for _, column := range c.group {
		names = append(names, quoted(column.Name))
	}
	switch {
	case len(names) == 1:
		order := "; messages with one value keep their order"
		if !c.group[0].NotNull {
			order += ", and those with NULL have none"
		}
		c.Columns = append(c.Columns, Setting{"group", names[0], describe("group", c.group[0]) + order})
	case len(names) > 1:
		c.Columns = append(c.Columns, Setting{"group", "[" + strings.Join(names, ", ") + "]", "messages with the same values keep their order"})
	default:
		if i := slices.IndexFunc(byShape, func(name string) bool { return c.column(name) != nil }); i >= 0 {
			c.Columns = append(c.Columns, Setting{"group", "null", whyNot(c.column(byShape[i]))})
		}
	}
}

// whyNot tells why a column is not used for what its name says.
func whyNot(column *report.Column) string {
	switch {
	case column.Generated:
		return "the column " + column.Name + " is generated"
	case column.Touched:
		return "the server sets the column " + column.Name + " whenever the row changes"
	}
	return "the column " + column.Name + " seems to mean something else"
}

// describe tells what a column is. It shows no values but those of columns that name kinds and states.
func describe(key string, c *report.Column) string {
	text := c.Type
	if c.NotNull {
		text += " NOT NULL"
	}
	if key == "type" || key == "topic" || key == "status" {
		for i, v := range c.Values {
			if i == 4 {
				return text + ", …"
			}
			text += fmt.Sprintf("%s %q %d×", map[bool]string{true: ";", false: ","}[i == 0], v.Text, v.Rows)
		}
	}
	return text
}
