// Package conn connects to MongoDB: it holds the configuration that every part of the source shares, makes clients, asks a server
// what it is and what its user may do, and gives the server's errors their meaning.
package conn

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Config is what source, store and setup need to know. All of them share one. Schema is the database that holds the collections tailbox_*, and
// tables without one of their own.
type Config struct{ source.Config }

// Resolved is the configuration with its defaults, and every table with a database. The error matches source.ErrStop.
func (c Config) Resolved() (Config, error) {
	c.MaxMessage, c.Logger = source.MaxMessage(c.MaxMessage), c.Log()
	if c.Schema == "" {
		uri, err := connstring.Parse(c.URL)
		if err != nil {
			return c, fmt.Errorf("%w: read source.url: %w", source.ErrStop, unreadable(err))
		}
		if c.Schema = uri.Database; c.Schema == "" {
			return c, fmt.Errorf("%w: source.url names no database: write mongodb://host/database, or set source.schema", source.ErrStop)
		}
	}
	tables := make([]outbox.Table, len(c.Tables))
	for i, t := range c.Tables {
		if t.Schema == "" {
			t.Schema = c.Schema
		}
		if t.Words == (outbox.Words{}) {
			t.Words = outbox.DefaultWords()
		}
		tables[i] = t
	}
	c.Tables = tables
	if len(tables) == 0 {
		return c, fmt.Errorf("%w: source.tables is empty", source.ErrStop)
	}
	return c, nil
}

// Database is where the collections tailbox_* are, and tables without a database of their own. The error matches source.ErrStop.
func (c Config) Database() (string, error) {
	c, err := c.Resolved()
	return c.Schema, err
}

// TableNamed finds a configured table.
func (c *Config) TableNamed(name string) *outbox.Table {
	for i := range c.Tables {
		if c.Tables[i].String() == name {
			return &c.Tables[i]
		}
	}
	return nil
}

// CommonDatabase is the one that all tables lie in; "" = several.
func (c *Config) CommonDatabase() string {
	database := c.Tables[0].Schema
	for i := range c.Tables {
		if c.Tables[i].Schema != database {
			return ""
		}
	}
	return database
}
