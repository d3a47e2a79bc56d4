package debezium

import (
	"slices"
	"strings"
)

// binary writes the format of a converter that passes bytes on, and has a delegate for everything else. Without a delegate, that stops Debezium.
func (c *conversion) binary(part, key string, from *setting) {
	delegate := c.take(key + ".delegate.converter.type")
	if delegate == nil {
		c.asBytes(part, from)
		return
	}
	schemas := c.take(key + ".delegate.converter.type.schemas.enable")
	class, meant := classOf(delegate.value, "", stringConverter, simpleHeaderConverter, byteArrayConverter, jsonConverter)
	if class != "" {
		c.converterOptions(key + ".delegate.converter.type")
	}
	envelope := part == "value" && c.envelops()
	switch {
	case envelope && class == jsonConverter:
		c.json(part, key+".delegate.converter.type", schemas, delegate)
		return
	case envelope, class != "" && class != jsonConverter:
		c.asBytes(part, from, delegate)
		return
	}
	columns := map[string]string{"key": c.columnOf("table.field.event.key", "aggregateid"), "value": c.columnOf("table.field.event.payload", "payload")}
	if columns[part] == "" {
		c.problem(delegate, "would write headers in different forms: set %s to org.apache.kafka.connect.storage.SimpleHeaderConverter once what reads the messages takes them so", key)
		return
	}
	err, why := c.describeTables(), "it is of the converter that is refused"
	switch {
	case c.columns.untoldAgain(err):
	case err != nil:
		c.problem(delegate, "writes column %s unless it holds bytes, but %v: let the import reach the database, or remove this option if it does", columns[part], err)
	case c.columns.blind: // only a report shows it
		c.out.ignored(delegate, "if column "+columns[part]+" is a bytea: the database has not been asked yet")
	case strings.Contains(c.columns.byName[columns[part]], `"type":"bytes"`):
		c.out.set(1, "format."+part, "binary", "the column is a bytea now", from)
		why = "no bytea goes through the delegate"
	case meant != "":
		c.problem(delegate, otherPackage, meant)
	case class == "":
		c.problem(delegate, "this converter is not built into tailbox: use org.apache.kafka.connect.storage.StringConverter, or org.apache.kafka.connect.json.JsonConverter "+
			"with schemas.enable=false")
	default:
		c.json(part, key+".delegate.converter.type", schemas, delegate)
	}
	c.ignore(why, c.keys(key+".delegate.converter.type.")...)
}

// envelops reports whether the router wraps the payload in an envelope, which is a structure and never bytes.
func (c *conversion) envelops() bool {
	return slices.ContainsFunc(c.placed(), func(p placement) bool { return p.in == "envelope" })
}

// asBytes writes the format of a converter that only takes bytes and texts; the last setting names it. With an envelope, Debezium stops.
func (c *conversion) asBytes(part string, from ...*setting) {
	if part == "value" && c.envelops() {
		c.problem(from[len(from)-1], "takes no envelope, which is a structure, so that Debezium stops at the first message: set it to JSON without schemas if messages are to be sent")
		return
	}
	c.out.set(1, "format."+part, "binary", "", from...)
}

// columnOf is the column that an option of the router names.
func (c *conversion) columnOf(option, byDefault string) string {
	if name := c.options[option]; name != "" {
		return name
	}
	return byDefault
}

// A placement is an entry of table.fields.additional.placement: the router puts a column in a part of the message, under a name.
type placement struct {
	column string
	in     string // header, envelope or partition; the option takes capitals, too
	as     string
}

// placed are the entries of table.fields.additional.placement.
func (c *conversion) placed() (all []placement) {
	for _, entry := range commas(c.options["table.fields.additional.placement"]) {
		parts := strings.Split(entry, ":")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		p := placement{column: parts[0], as: parts[0]}
		if len(parts) > 1 {
			p.in = strings.ToLower(parts[1])
		}
		if len(parts) > 2 {
			p.as = parts[2]
		}
		all = append(all, p)
	}
	return all
}

// placedColumns are the columns that table.fields.additional.placement names.
func (c *conversion) placedColumns() (columns []string) {
	for _, p := range c.placed() {
		columns = append(columns, p.column)
	}
	return columns
}

// headers are the columns that the router makes headers of.
func (c *conversion) headers() []placement {
	return slices.DeleteFunc(c.placed(), func(p placement) bool { return p.in != "header" })
}

// modes refuses modes of times and numbers if the id, the key or a placed column may be of such a type, and those of bytes if the payload may, too.
func (c *conversion) modes() {
	times := "adaptive"
	if c.kind == "mysql" || c.kind == "mariadb" {
		times = "adaptive_time_microseconds"
	}
	named := append([]string{c.columnOf("table.field.event.id", c.idByDefault()), c.columnOf("table.field.event.key", "aggregateid")}, c.placedColumns()...)
	named = append(named[:2:2], slices.DeleteFunc(named[2:], func(column string) bool { return slices.Contains(named[:2], column) })...)
	sent := slices.Insert(slices.Clone(named), 2, c.columnOf("table.field.event.payload", "payload"))
	for _, mode := range []struct {
		key, want string
		harmless  []string
		columns   []string
		fixed     func(column, mode string) bool
	}{{"source.time.precision.mode", times, []string{times}, named, c.columns.fixed}, {"source.decimal.handling.mode", "precise", []string{"precise", "string"}, named, c.columns.fixed},
		{"source.bigint.unsigned.handling.mode", "long", []string{"long"}, named, c.columns.fixed}, {"source.binary.handling.mode", "bytes", []string{"bytes"}, sent, c.columns.noBytes}} {
		s := c.settings[mode.key]
		if s == nil || s.used || containsFold(mode.harmless, s.value) {
			continue
		}
		c.take(mode.key)
		c.mode(s, mode.want, mode.columns, mode.fixed)
	}
}

// mode refuses a mode if it may change one of the columns that it is about. fixed reports whether it does not.
func (c *conversion) mode(s *setting, want string, columns []string, fixed func(column, mode string) bool) {
	if len(columns) == 0 {
		c.out.ignored(s, "it changes no column that is sent")
		return
	}
	err := c.describeTables()
	if c.columns.untoldAgain(err) || err == nil && c.columns.blind { // only a report shows it: something else is refused, or the database is asked next
		c.out.ignored(s, "unless a column that is sent is of such a type: the database has not been asked yet")
		return
	}
	if err != nil {
		c.problem(s, "changes how columns %s are sent if they are of such a type, but %v: let the import reach the database, or set it to %s if none is", strings.Join(columns, ", "), err, want)
		return
	}
	others := slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return fixed(column, s.value) })
	if len(others) > 0 {
		c.problem(s, "may change how column %s is sent, and is not built into tailbox: set it to %s once what reads the messages takes it so, or remove the option if that is of no such type",
			strings.Join(others, ", "), want)
		return
	}
	c.out.ignored(s, "it changes no column that is sent")
}

// written are the columns whose types decide what a converter of JSON writes. A payload is none of them: the router sends the text that it is, or its fields.
func (c *conversion) written(converter string) []string {
	switch {
	case strings.Contains(converter, "key"):
		return []string{c.columnOf("table.field.event.key", "aggregateid")}
	case strings.Contains(converter, "header"):
		return append(c.placedColumns(), c.columnOf("table.field.event.id", c.idByDefault()))
	case c.envelops():
		return c.placedColumns()
	}
	return nil
}

// converterOptions goes through what is left of a converter's options.
func (c *conversion) converterOptions(key string) {
	for _, option := range c.keys(key + ".") {
		s := c.take(option)
		why := ""
		switch name := strings.TrimPrefix(option, key+"."); name {
		case "schemas.enable", "schemas.cache.size", "converter.type":
			why = "it changes nothing here"
		case "schema.registry.url":
			why = "this converter asks no registry"
		case "converter.encoding", "key.serializer.encoding", "value.serializer.encoding": // what StringConverter and its serializer read
			if containsFold([]string{"UTF8", "UTF-8"}, s.value) {
				why = "it is at its default"
				break
			}
			c.problem(s, "would send texts in another encoding, and is not built into tailbox: set it to UTF-8")
		case "decimal.format":
			if strings.EqualFold(s.value, "BASE64") {
				why = "it is at its default"
				break
			}
			c.mode(s, "BASE64", c.written(key), c.columns.fixed)
			continue
		case "replace.null.with.default":
			if strings.EqualFold(s.value, "false") {
				why = "NULL is sent as null"
				break
			}
			c.problem(s, "would send a column's default in place of NULL, and is not built into tailbox: set it to false, or remove it, if no column that is sent has a default")
		case "delegate.converter.type", "delegate.converter.type.schemas.enable":
			why = "this converter has no delegate"
		default:
			if !listed("converter." + name) {
				why = unheardOf
				break
			}
			c.problem(s, "is no option of this converter that is known to change nothing: remove it, if the messages do not depend on it")
		}
		if why != "" {
			c.out.ignored(s, why)
		}
	}
}
