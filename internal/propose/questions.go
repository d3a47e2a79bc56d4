package propose

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store/report"
)

// otherBody is a second column that may be the body of a message; nil if there is none.
func (c *chooser) otherBody() *report.Column {
	if c.by["payload"] == nil {
		return nil
	}
	return c.unused(func(column *report.Column, name string) bool {
		bytes := column.Class == report.JSON || column.Class == report.Binary
		return bytes && among("content data eventdata args kwargs json", name) ||
			(bytes || column.Class == report.Text) && hasPart(name, "payload", "body") && !hasPart(name, "type", "schema", "hash", "size", "length", "format", "encod", "version", "url", "codec", "compress", "sum", "revision", "id")
	})
}

// otherType is a column without a role that may be the type of a message; nil if there is none.
func (c *chooser) otherType() *report.Column {
	return c.unused(func(column *report.Column, name string) bool {
		ends := strings.HasSuffix(name, "type") || strings.HasSuffix(name, "name") || strings.HasSuffix(name, "kind")
		return column.Class == report.Text && isKind(column) && (among("event type kind action", name) || hasPart(name, "event", "message") && ends)
	})
}

// askTimes asks about times that nothing uses, and for which messages may have to wait. If one is still to come, a wrong answer delivers a message too early.
func (c *chooser) askTimes() {
	if c.by["available_at"] != nil {
		return
	}
	ahead := false
	var names []string
	later := []string{"sendat", "sendon", "publishon", "notbefore", "schedul", "available", "delay"} // parts of names that tell it of a text, too
	for i := range c.t.Columns {
		column := &c.t.Columns[i]
		name := plain(column.Name)
		time := isTime(column) || column.Class == report.Number || column.Type == "date" ||
			(column.Class == report.Text || column.Class == report.Binary || column.Class == report.Other) && hasPart(name, later...)
		created := column == c.by["created_at"] && (column.Ahead || hasPart(name, "enqueue")) // a message that is delayed may be put into its queue later
		if c.used[column.Name] && !created || !time || hasPart(name, "expir", "deadline", "deliverby") {
			continue
		}
		if created || column.Ahead || (hasPart(name, later...) || hasPart(name, "until", "after", "due", "effective", "enqueuetime")) && !hasPart(name, "lock", "lease") {
			names, ahead = append(names, column.Name), ahead || column.Ahead
		}
	}
	if len(names) == 0 {
		return
	}
	if ahead {
		c.perhaps("available_at", strings.Join(names, " or "))
	}
	c.question("Does %s tell when a message may be sent at the earliest? If so, name it as available_at. Its type must be a time: for a number or a text, add a column of times that a trigger fills. If it tells something else, write available_at: null, and tailbox does not look at it.", strings.Join(names, " or "))
}

// severalLines finds a value of JSON behind another one.
var severalLines = regexp.MustCompile(`[}\]]\s*\n\s*[{\[]`)

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
	if c.by["type"] == nil {
		c.question("No column looks like the type of a message. Name it as type. Without one, routes go by the table or by headers.")
	}
	if c.by["type"] == nil && c.by["topic"] == nil && c.Shape != "debezium" {
		c.question("Nothing names a topic, without which Kafka and NATS take no message. Write topic: NAME beside columns, or name a column as topic.")
	}
	if len(c.group) == 0 {
		c.question("No column looks like a message group, so messages are delivered in parallel and in no order. If some have to stay in order, name the columns that they have in common as group. If all have to, docs/tables.md, \"Your own table\", makes the table one group.")
	}
	if at := c.by["available_at"]; at != nil {
		zone := ""
		if at.Class == report.LocalTime {
			zone = " Its times have no zone, and tailbox reads them as UTC: if the application writes local time, messages go hours too early or too late."
		}
		if !at.NotNull {
			zone = " If that is NULL, it goes at once." + zone
		}
		c.question("A message waits until the time in %s, outside the order of its group.%s If the column means something else, write available_at: null.", at.Name, zone)
	}
	if kind, other := c.by["type"], c.otherType(); kind != nil && other != nil {
		c.question("Both %s and %s may be the type of a message. tailbox takes %s; name the other one as type if that is it.", kind.Name, other.Name, kind.Name)
	}
	c.askNulls()
	c.askGroupNulls()
	c.askUnlogged()
	c.askKey()
	c.askTopic()
	c.askOrder()
	if next := c.by["next_attempt_at"]; next != nil && c.by["available_at"] == nil {
		c.question("Does the application delay a message by a later time in %s? tailbox does not look at it. If so, write available_at: %s. A message then waits until that time, outside the order of its group.", next.Name, quoted(next.Name))
	}
	if found := c.find([]string{"queuename", "queue"}, []report.Class{report.Text}, nil); found != nil {
		c.question("%s seems to name one of several queues in this table. If tailbox is to deliver only some, write tenant: %s under columns, and tenants: [NAME] beside it. If consumers tell messages apart by it, write topic: %s.", found.Name, quoted(found.Name), quoted(found.Name))
	}
	if found := c.find([]string{"priority"}, []report.Class{report.Number}, nil); found != nil {
		c.question("In tailbox a higher priority goes first among retries. If that is so in %s, write priority: %s.", found.Name, quoted(found.Name))
	}
	if headers := c.by["headers"]; headers != nil && !hasPart(plain(headers.Name), "header") && c.Shape != "debezium" {
		c.question("tailbox sends each key of %s as a header. If consumers must not have them, write headers: null.", headers.Name)
	}
	c.askHeaders()
	c.askKinds()
	c.askAddress()
	if headers := c.by["headers"]; headers != nil && headers.Class == report.Binary && len(headers.Sample) == 0 && c.Shape != "debezium" {
		c.question("%s is empty in the rows that were looked at. tailbox reads headers from a JSON object. If the application writes something else there, write headers: null.", headers.Name)
	}
	c.askExpiry()
	if limit := c.by["max_attempts"]; limit != nil {
		c.question("A message has at most as many attempts as %s of its row says, whatever retry.attempts is. If the column means something else, write max_attempts: null.", limit.Name)
	}
}

// askUnlogged tells which columns Postgres computes, and so leaves out of its log.
func (c *chooser) askUnlogged() {
	var names []string
	for i := range c.t.Columns {
		if column := &c.t.Columns[i]; column.Generated && !c.used[column.Name] && c.t.Quote == `"` {
			names = append(names, column.Name)
		}
	}
	if len(names) > 0 {
		c.question("Postgres computes %s, and its log does not hold such a column, so tailbox cannot read it. If a message needs one, such as its type or its group, have the application or a trigger write it into an ordinary column.",
			strings.Join(names, ", "))
	}
}

// askNulls asks about a type or a topic that some rows do not have.
func (c *chooser) askNulls() {
	if topic := c.by["topic"]; topic != nil && topic.Nulls > 0 && c.Shape != "debezium" {
		c.question("%s is NULL in %d of the %d rows that were looked at. The topic of such a message is its type. If the program before takes another one, give the column that default.", topic.Name, topic.Nulls, c.t.Rows)
	}
	if kind := c.by["type"]; kind != nil && kind.Nulls > 0 {
		c.question("%s is NULL in %d of the %d rows that were looked at. tailbox makes a dead letter of a message without a type, and its group waits. Write type: %s if that is right. For a type that such messages have in common, give the column a default.",
			kind.Name, kind.Nulls, c.t.Rows, quoted(kind.Name))
	}
}

// askGroupNulls asks about a group that a part is missing of.
func (c *chooser) askGroupNulls() {
	for _, column := range c.group {
		if len(c.group) > 1 && column.Nulls > 0 {
			c.question("%s is NULL in %d of the %d rows that were looked at. A message with NULL in a column of its group has no group, and so no order. If such messages have to stay in order, take the column out of group, or give it a default.",
				column.Name, column.Nulls, c.t.Rows)
		}
	}
}

// askKey asks about another column that may be the key of a message, and about a group by a key that may not tell what belongs together.
func (c *chooser) askKey() {
	other := c.unused(func(column *report.Column, name string) bool {
		return strings.HasSuffix(name, "key") && slices.Contains([]report.Class{report.Text, report.UUID, report.Number, report.Binary}, column.Class) &&
			!hasPart(name, "idempot", "dedup", "unique", "primary", "foreign", "api", "secret", "private", "public", "crypt", "sign", "lock", "concurrency")
	})
	if key := c.by["key"]; other != nil && c.Shape != "debezium" {
		what := "messages go without a key"
		if key != nil {
			what = "tailbox takes " + key.Name
		}
		c.question("%s may be the key of a message, by which Kafka chooses the partition; %s. If consumers get %s as the key, write key: %s, and group: %s if messages with one value have to keep their order.",
			other.Name, what, other.Name, quoted(other.Name), quoted(other.Name))
	}
	if len(c.group) == 1 && among("eventkey recordkey", c.group[0].Name) {
		c.question("Does %s say which messages have to stay in order? If one cannot be delivered, those with the same value wait. If it is rather a type or a routing key, such as order.created, write it as type or topic, and name another column as group, or null for no order.", c.group[0].Name)
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
	switch {
	case len(c.group) > 0 && !hasPart(plain(topic.Name), "topic", "aggregate"):
		c.question("Is %s the topic that consumers read? If not, write topic: null, and the topic is the type.", topic.Name)
	case len(c.group) == 0:
		c.question("Is %s the topic that consumers read? If it says which messages keep their order instead, write topic: null and group: %s, and ungrouped: [VALUE] if a value means no order.", topic.Name, quoted(topic.Name))
	}
}

// askOrder asks about columns that may say in which order messages go, and about old rows whose order no column tells.
func (c *chooser) askOrder() {
	if other := c.find([]string{"segment", "lane", "concurrencykey"}, []report.Class{report.Text, report.UUID, report.Number}, nil); len(c.group) > 0 && other != nil {
		c.question("If messages with one %s have to stay in order, rather than those with one group as above, write group: %s.", other.Name, quoted(other.Name))
	}
	id, at, by := c.by["id"], c.by["created_at"], c.by["seq"]
	if by != nil && by != id {
		return
	}
	seq := c.find(strings.Fields("seq sequence sequencenumber position ordinal offset revision num no"), []report.Class{report.Number}, nil)
	if seq == nil && by == nil {
		seq = c.unused(func(column *report.Column, name string) bool {
			return column.Class == report.Number && !hasPart(name, "schema", "api") && (strings.HasSuffix(name, "seq") || strings.HasSuffix(name, "version") || strings.Contains(name, "sequence"))
		})
	}
	if seq != nil {
		c.question("Does %s count messages in the order in which they go? If so, write seq: %s. For rows that it does not find in the log, tailbox takes that order, or first that of their commits if the server knows it.", seq.Name, quoted(seq.Name))
	}
	if by != nil || c.t.Rows == 0 || len(c.group) == 0 || id == nil {
		return
	}
	order := "nothing in a row is known to tell in which order they were written"
	if at != nil {
		order = at.Name + " alone tells in which order they were written, and not between rows with one value, such as those of one statement or transaction"
	}
	c.question("The table has rows, and %s. tailbox may deliver those of one group in another order when it starts for the first time. If order matters, let the program before deliver them all.", order)
}

// askExpiry asks about a time after which a message may be of no use.
func (c *chooser) askExpiry() {
	found := c.unused(func(column *report.Column, name string) bool {
		return isTime(column) && hasPart(name, "expir", "deadline", "validuntil", "deliverby") && !strings.Contains(name, "lock")
	})
	if found != nil {
		c.question("tailbox does not look at %s, and delivers a message also after that time. If consumers are to drop such a message, send it as a header: docs/routing.md, \"Placements\".", found.Name)
	}
}

// askHeaders asks about a column that seems to hold headers, and that is not the one tailbox takes them from.
func (c *chooser) askHeaders() {
	found := c.unused(func(column *report.Column, name string) bool {
		return strings.Contains(name, "header") || strings.HasSuffix(name, "properties") || strings.HasSuffix(name, "metadata") || among("attributes options context", name)
	})
	switch headers := c.by["headers"]; {
	case found == nil && headers != nil && c.Shape != "debezium" && slices.ContainsFunc(headers.Sample, isNested):
		c.question("Values in %s are lists or objects of JSON, and tailbox sends each as a header with its text. If consumers take them in another form, docs/tables.md, \"Headers in another form\", has a trigger.", headers.Name)
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
		return column.Class != report.Number && (among("destinations targets targetservice targetsystem destsystem receiver subscriber consumer", name) || strings.HasSuffix(name, "url") || strings.HasSuffix(name, "uri") || hasPart(name, "urls", "endpoint", "recipient")) ||
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
		c.perhaps("tenant", found.Name)
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
	if body.Class == report.Binary && len(body.Sample) == 0 && c.Shape != "debezium" {
		c.question("%s is empty in the rows that were looked at, and may hold any bytes. tailbox sends them as they are. If a library writes an envelope of its own there, or the program before wraps them when it sends them, consumers have to read what the column holds.", body.Name)
		return
	}
	if slices.ContainsFunc(body.Sample, func(text string) bool {
		text = strings.TrimSpace(text)
		return strings.HasPrefix(text, `"{`) || strings.HasPrefix(text, `"[`)
	}) {
		c.question("%s holds a text of JSON within a string of JSON. tailbox sends the string as it is, in quotes. If consumers need what is in it, let the application write that as an object.", body.Name)
		return
	}
	if slices.ContainsFunc(body.Sample, func(text string) bool {
		return strings.HasPrefix(strings.TrimSpace(text), "[") || severalLines.MatchString(text)
	}) {
		c.question("%s holds lists of JSON, or several values in a row, and tailbox sends what a row holds as one message. If each element is a message, docs/tables.md, \"A row with several messages\", has a trigger.", body.Name)
		return
	}
	if slices.ContainsFunc(body.Sample, isEncoded) {
		c.question("%s holds what a program has serialized or encoded, such as an object of PHP, or base64. tailbox sends it as it is. If consumers need what is in it, let the application write that into the column, as JSON or as bytes.", body.Name)
		return
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
