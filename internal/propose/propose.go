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
	c.chooseID()
	for _, r := range roles() {
		if found := c.find(strings.Fields(r.names), r.classes, r.fits); found != nil && c.by[r.key] == nil {
			c.by[r.key] = found
			c.used[found.Name] = true
		}
	}
	c.chooseGroup()
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

// list writes the columns down. A column of the table that the shape would take for something else is taken away from it.
func (c *chooser) list() {
	shape, _ := outbox.ShapeNamed("tailbox")
	for _, key := range outbox.ColumnNames() {
		found := c.by[key]
		switch field := shape.Columns.Field(key); {
		case key == "group":
			c.listGroup(shape.Columns.Group)
		case key == "payload" && found != nil && (found.Nulls > 0 || plain(found.Name) != "payload" && c.otherBody() != nil):
			c.Columns = append(c.Columns, Setting{key, `"` + Unknown + `"`, "perhaps " + found.Name + ": see the questions"})
		case found != nil:
			c.Columns = append(c.Columns, Setting{key, quoted(found.Name), describe(key, found)})
		case key == "id" || key == "payload":
			c.Columns = append(c.Columns, Setting{key, `"` + Unknown + `"`, "see the questions"})
		case key == "type":
			c.Columns = append(c.Columns, Setting{key, "null", "no column looks like one"})
		case field != nil && c.column(*field) != nil:
			c.Columns = append(c.Columns, Setting{key, "null", "the column " + *field + " seems to mean something else"})
		}
	}
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
		c.Columns = append(c.Columns, Setting{"group", names[0], describe("group", c.group[0]) + "; messages with one value keep their order"})
	case len(names) > 1:
		c.Columns = append(c.Columns, Setting{"group", "[" + strings.Join(names, ", ") + "]", "messages with the same values keep their order"})
	case slices.ContainsFunc(byShape, func(name string) bool { return c.column(name) != nil }):
		c.Columns = append(c.Columns, Setting{"group", "null", "the column " + byShape[0] + " seems to mean something else"})
	}
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

// otherBody is a second column that may be the body of a message; nil if there is none.
func (c *chooser) otherBody() *report.Column {
	if c.by["payload"] == nil {
		return nil
	}
	return c.find(strings.Fields("payload body content data eventdata messagebody args kwargs json"), []report.Class{report.JSON, report.Binary}, nil)
}

// askTimes asks about times that nothing uses, and for which messages may have to wait. If one is still to come, a wrong answer delivers a message too early.
func (c *chooser) askTimes() {
	if c.by["available_at"] != nil {
		return
	}
	ahead := false
	var names []string
	for i := range c.t.Columns {
		column := &c.t.Columns[i]
		time, name := column.Class == report.Time || column.Class == report.LocalTime, plain(column.Name)
		if c.used[column.Name] && (column != c.by["created_at"] || !column.Ahead) || !time && column.Class != report.Number || hasPart(name, "expir", "deadline", "deliverby") {
			continue
		}
		if column.Ahead || hasPart(name, "until", "after", "due", "schedul", "available", "effective", "sendat") && !strings.Contains(name, "lock") {
			names, ahead = append(names, column.Name), ahead || column.Ahead
		}
	}
	if len(names) == 0 {
		return
	}
	if ahead {
		c.Columns = append(c.Columns, Setting{"available_at", `"` + Unknown + `"`, "perhaps " + strings.Join(names, " or ") + ": see the questions"})
	}
	c.question("Does %s tell when a message may be sent at the earliest? If so, name it as available_at; its type must be a time. If not, write available_at: null, and tailbox does not look at it.", strings.Join(names, " or "))
}

func hasPart(name string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

// ask lists what the columns that were chosen leave open.
func (c *chooser) ask() {
	if other := c.otherBody(); other != nil {
		c.question("Both %s and %s may be the body of a message. tailbox takes %s; name the other one as payload if that is it.", c.by["payload"].Name, other.Name, c.by["payload"].Name)
	}
	c.askTimes()
	c.askBody()
	if c.by["type"] == nil && c.by["payload"] != nil {
		c.question("No column looks like the type of a message. Name it as type. Without one, routes go by the table or by headers.")
	}
	if c.by["type"] == nil && c.by["topic"] == nil && c.by["payload"] != nil && c.Shape != "debezium" {
		c.question("Nothing names a topic, without which Kafka and NATS take no message. Write topic: NAME beside columns, or name a column as topic.")
	}
	if len(c.group) == 0 {
		c.question("No column looks like a message group, so messages are delivered in parallel and in no order. If some have to stay in order, name the columns that they have in common as group. If all have to, docs/tables.md, \"Your own table\", makes the table one group.")
	}
	if at := c.by["available_at"]; at != nil {
		zone := ""
		if at.Class == report.LocalTime {
			zone = " Its times have no zone, and tailbox reads them as UTC: if the application writes local time, messages wait for hours."
		}
		c.question("A message waits until the time in %s, outside the order of its group.%s If the column means something else, write available_at: null.", at.Name, zone)
	}
	c.askTopic()
	if next := c.by["next_attempt_at"]; next != nil && c.by["available_at"] == nil {
		c.question("Does the application delay a message by a later time in %s? tailbox does not look at it. If so, write available_at: %s. A message then waits until that time, outside the order of its group.", next.Name, quoted(next.Name))
	}
	if found := c.find([]string{"queuename", "queue"}, []report.Class{report.Text}, nil); found != nil {
		c.question("%s seems to name one of several queues in this table. If tailbox is to deliver only some, write tenant: %s under columns, and tenants: [NAME] beside it. If consumers tell messages apart by it, write topic: %s.", found.Name, quoted(found.Name), quoted(found.Name))
	}
	if found := c.find([]string{"priority"}, []report.Class{report.Number}, nil); found != nil {
		c.question("In tailbox a higher priority goes first among retries. If that is so in %s, write priority: %s.", found.Name, quoted(found.Name))
	}
	c.askHeaders()
	c.askKinds()
	c.askAddress()
	if headers := c.by["headers"]; headers != nil && headers.Class == report.Binary && len(headers.Sample) == 0 && c.Shape != "debezium" {
		c.question("%s is empty in the rows that were looked at. tailbox reads headers from a JSON object. If the application writes something else there, write headers: null.", headers.Name)
	}
	if limit := c.by["max_attempts"]; limit != nil {
		c.question("A message has at most as many attempts as %s of its row says, whatever retry.attempts is. If the column means something else, write max_attempts: null.", limit.Name)
	}
}

// askTopic asks about a column of topics that may name what keeps messages in order, or addresses.
func (c *chooser) askTopic() {
	topic := c.by["topic"]
	if topic == nil {
		return
	}
	if slices.ContainsFunc(topic.Sample, func(text string) bool { return strings.Contains(text, "://") }) {
		c.question("%s holds addresses, and tailbox takes each for the name of a topic. If a topic is only a part of one, docs/routing.md, \"Topic\", has a regular expression for it.", topic.Name)
	}
	if len(c.group) == 0 {
		c.question("Is %s the topic that consumers read? If it says which messages keep their order instead, write topic: null and group: %s, and ungrouped: [VALUE] if a value means no order.", topic.Name, quoted(topic.Name))
	}
}

// askHeaders asks about a column that seems to hold headers, and that is not the one tailbox takes them from.
func (c *chooser) askHeaders() {
	found := c.unused(func(column *report.Column, name string) bool {
		return strings.Contains(name, "header") || strings.HasSuffix(name, "properties") || strings.HasSuffix(name, "metadata") || among("attributes options context", name)
	})
	switch headers := c.by["headers"]; {
	case found == nil:
	case found.Type == "oid":
		c.question("%s seems to hold headers. It is an oid, and the log does not hold large objects, so messages go without them. If they need them, change it to bytea, too.", found.Name)
	case headers != nil:
		c.question("Both %s and %s may hold headers. tailbox takes those of %s, so messages go without what %s holds. The type or the key can also come from a part of a column of headers: docs/tables.md, \"Parts from a header or the payload\".",
			headers.Name, found.Name, headers.Name, found.Name)
	case len(found.Sample) > 0 && !isObject(found):
		c.question("%s (%s) seems to hold headers. tailbox reads headers from a JSON object, and rows hold something else in it: tailbox leaves this column out, so messages go without these headers. "+
			"docs/tables.md, \"Headers in another form\", has a trigger that makes an object of them.", found.Name, found.Type)
	default:
		c.question("%s (%s) seems to hold headers, and tailbox leaves it out, so messages go without them. If it holds a JSON object of headers in each row, write headers: %s. "+
			"For another form, docs/tables.md, \"Headers in another form\", has a trigger.", found.Name, found.Type, quoted(found.Name))
	}
}

// askAddress asks about a column by which each row says where its message goes.
func (c *chooser) askAddress() {
	found := c.unused(func(column *report.Column, name string) bool {
		return among("destinations targets recipients url urls targeturl webhookurl callbackurl endpoint targeturi", name) && column.Class != report.Number ||
			column.Class == report.JSON && slices.ContainsFunc(column.Sample, func(text string) bool { return strings.Contains(text, `url"`) || strings.Contains(text, `_arn"`) })
	})
	if found != nil {
		c.question("%s seems to say where each message goes, and tailbox does not look at it: a sink has one address, and the http sink sends with POST. If the addresses are few, write a sink for each, and routes by type, topic or header: docs/routing.md. "+
			"If each row has an address of its own, tailbox cannot deliver this table.", found.Name)
	}
}

// askKinds asks about a column that tells messages to send from rows of another kind, such as those of an inbox.
func (c *chooser) askKinds() {
	var told []string
	found := c.unused(func(column *report.Column, name string) bool {
		told = column.Labels
		for _, v := range column.Values {
			told = append(told, v.Text)
		}
		return slices.ContainsFunc(told, func(word string) bool { return among("inbox inbound incoming received internal", word) }) ||
			among("deliverytype direction boxtype mailbox", name)
	})
	if found == nil {
		return
	}
	has := "says of what kind a row is"
	if len(told) > 0 {
		has = "says " + strings.Join(told, ", ")
	}
	if c.by["tenant"] == nil && len(told) > 1 {
		c.Columns = append(c.Columns, Setting{"tenant", `"` + Unknown + `"`, "perhaps " + found.Name + ": see the questions"})
	}
	c.question("%s %s, so perhaps some rows are no messages to send. If tailbox is to deliver only some, write tenant: %s under columns, and tenants: [WORD] beside it: tailbox leaves the other rows alone. If it is to deliver all, write tenant: null.",
		found.Name, has, quoted(found.Name))
}

// askBody asks about the body of a message: where it is, or what tailbox can take from it.
func (c *chooser) askBody() {
	body := c.by["payload"]
	if body == nil {
		large := c.find(strings.Fields(bodyNames), []report.Class{report.Other}, func(f *report.Column) bool { return f.Type == "oid" })
		if large == nil {
			c.question("No column looks like the body of a message. Name it as payload. If a row refers to a message in another table, configure that table instead.")
			return
		}
		name := c.t.Quoted(large.Name)
		c.question("No column looks like the body of a message: %s is an oid, a reference to a large object, whose content is not in the log. Execute ALTER TABLE %s.%s ALTER COLUMN %s TYPE bytea USING lo_get(%s), "+
			"map the field as bytea in the application, and write payload: %s.", large.Name, c.t.Quoted(c.t.Schema), c.t.Quoted(c.t.Name), name, name, quoted(large.Name))
		return
	}
	if body.Nulls > 0 {
		c.question("%s is NULL in %d of the %d rows that were looked at, and tailbox sends such a message without a body. Write payload: %s if that is right. If consumers need what other columns hold, send those as headers: docs/routing.md, \"Placements\".",
			body.Name, body.Nulls, c.t.Rows, quoted(body.Name))
	}
	if body.Class != report.Binary || !slices.ContainsFunc(body.Sample, func(value string) bool { return !isText(value) }) {
		return
	}
	if c.by["key"] == nil && c.by["topic"] == nil && c.by["headers"] == nil {
		c.question("%s holds bytes that are not text, such as the envelope of a library. tailbox sends them as they are, and cannot take key, topic or headers from them. If consumers need these, let the library write them into columns of their own.", body.Name)
		return
	}
	c.question("%s holds bytes that are not text, and tailbox sends them as they are. If the program before wraps the row when it sends it, for example in an Avro envelope, consumers have to read what the column holds from now on.", body.Name)
}

// qualified is the name of a table as the configuration has it.
func qualified(schema, name string) string {
	if schema == "" {
		return part(name)
	}
	return part(schema) + "." + part(name)
}

func part(name string) string {
	if strings.ContainsAny(name, ".\"`") {
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}
