package debezium

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// json writes a format of JSON, with its schema unless that is turned off.
func (c *conversion) json(part, key string, schemas, from *setting) {
	if schemas != nil && strings.EqualFold(schemas.value, "false") {
		c.out.set(1, "format."+part, "json", "", from, schemas)
		return
	}
	if schemas != nil && !schemas.is("true") {
		c.problem(schemas, "must be true or false")
		return
	}
	c.out.set(1, "format."+part, "json", "", from)
	literal, err := c.schema(part)
	if c.columns.untoldAgain(err) {
		return
	}
	if err == nil {
		if schemas == nil {
			schemas = c.byDefault(key+".schemas.enable", "true")
		}
		c.out.set(1, "format."+part+".schema", quoted(literal), "from the table as it is now", schemas)
		return
	}
	reason := "would put a schema around each %s, but %v: set it to false" + c.besideConverter(key, from) + " once what reads the messages takes them without"
	if _, ok := errors.AsType[notAsked](err); ok {
		reason += ", or let the import reach the database"
	}
	if schemas == nil {
		c.missing(key+".schemas.enable", "is missing, and its default, true, "+reason, part, err)
		return
	}
	c.problem(schemas, reason, part, err)
}

// besideConverter says where an option of a converter has to stand if the connector leaves the converter to its worker, and ignores the option in the connector.
func (c *conversion) besideConverter(key string, from *setting) string {
	switch {
	case c.server || slices.ContainsFunc(c.layers, func(l *layer) bool { return l.has("connector.class") && l.has(key) }):
		return ""
	case from.file != "":
		return " in the worker's " + from.file
	}
	return " in the worker"
}

// schema is the literal of what is put around keys, values or headers.
func (c *conversion) schema(part string) (string, error) {
	if part == "value" && (c.expands() || c.envelops()) {
		return "", errors.New("that of an expanded payload or an envelope is not made here")
	}
	if err := c.describeTables(); err != nil {
		return "", err
	}
	switch part {
	case "key":
		return c.column("table.field.event.key", "aggregateid")
	case "value":
		return c.column("table.field.event.payload", "payload")
	}
	id, err := c.column("table.field.event.id", c.idByDefault())
	if err != nil {
		return "", err
	}
	columns := map[string]json.RawMessage{}
	columns[c.columnOf("table.field.event.id", c.idByDefault())] = json.RawMessage(id)
	for _, header := range c.headers() {
		literal, err := c.columns.of(header.column)
		if err != nil {
			return "", err
		}
		columns[header.column] = json.RawMessage(literal)
	}
	all, err := json.Marshal(columns)
	return string(all), err
}

// idByDefault is the column of the id unless the router's options name another.
func (c *conversion) idByDefault() string {
	if c.kind == mongodb {
		return "_id"
	}
	return "id"
}

func noSchema(column string) error {
	return fmt.Errorf("column %s does not exist, has a default that the import cannot write, or a type that is sent in another form than as text", column)
}

// column is the schema of the column that an option names.
func (c *conversion) column(option, byDefault string) (string, error) {
	return c.columns.of(c.columnOf(option, byDefault))
}

// columnSchemas are the schemas that Kafka's JSON converter writes for the columns of the outbox tables.
type columnSchemas struct {
	describe Describe
	// blind: the database is not asked; asked: it would have been. untold: it could not be asked, and that has been told.
	blind, asked, untold bool
	// byName holds what Describe returns.
	byName map[string]string
}

// of returns the schema of a column.
func (c *columnSchemas) of(name string) (string, error) {
	literal := c.byName[name]
	switch {
	case c.blind:
		return "{}", nil
	case literal == "":
		return "", noSchema(name)
	}
	return literal, nil
}

// fixed reports whether a column has the same form in a mode of times or decimals as in the default one. Points in time with a zone have another form in
// the mode structured alone. A column without a known schema may be one.
func (c *columnSchemas) fixed(name, mode string) bool {
	literal, ok := c.byName[name]
	return c.blind || ok && (!strings.EqualFold(mode, "structured") || literal != "" && !strings.Contains(literal, "ZonedTimestamp"))
}

// has reports whether the tables have a column.
func (c *columnSchemas) has(name string) bool {
	_, found := c.byName[name]
	return found
}

// noBytes reports whether a column is known to have another type than bytes, which have another form in each mode.
func (c *columnSchemas) noBytes(name, _ string) bool {
	literal := c.byName[name]
	return c.blind || literal != "" && !strings.Contains(literal, `"type":"bytes"`)
}

func (c *conversion) expands() bool {
	return strings.EqualFold(c.options["table.expand.json.payload"], "true")
}

// A notAsked is why the tables' columns are not known.
type notAsked struct{ error }

// untoldAgain reports whether an error says once more that the tables' columns are not known.
func (c *columnSchemas) untoldAgain(err error) bool {
	if _, ok := errors.AsType[notAsked](err); !ok {
		return false
	}
	before := c.untold
	c.untold = true
	return before
}

// describeTables asks for the columns, once. Documents have none: Debezium sends a schema of each document's own values. What the router cannot do
// without is a text there.
func (c *conversion) describeTables() error {
	if c.kind != mongodb {
		return c.columns.read(c.kind, c.address, c.tables)
	}
	c.columns.blind, c.columns.byName = false, map[string]string{}
	for option, byDefault := range map[string]string{"table.field.event.id": "_id", "table.field.event.key": "aggregateid", "table.field.event.payload": "payload",
		"table.field.event.type": "type", "route.by.field": "aggregatetype"} {
		c.columns.byName[c.columnOf(option, byDefault)] = `{"type":"string","optional":true}`
	}
	return nil
}

// read asks for the columns, once. Tables have to agree on them. address is that of the database.
func (c *columnSchemas) read(kind, address string, tables []string) error {
	c.asked = true
	if c.byName != nil || c.blind {
		return nil
	}
	if c.describe == nil || len(tables) == 0 {
		return notAsked{errors.New("the table's columns are not known")}
	}
	for _, table := range tables {
		schemas, err := c.describe(kind, address, table)
		if err != nil {
			return notAsked{err}
		}
		for column, literal := range c.byName {
			if other, ok := schemas[column]; !ok {
				delete(c.byName, column)
			} else if other != literal {
				c.byName[column] = ""
			}
		}
		if c.byName == nil {
			c.byName = schemas
		}
	}
	return nil
}
