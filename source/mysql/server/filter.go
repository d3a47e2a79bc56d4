package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store/check"
)

// Unlogged finds a database that the server keeps out of its log although it has an outbox table, or the relay's own tables, by
// whose changes it is known how far the log was read. Rows are filtered by the database of their table, whatever database
// their session uses.
func (c *Config) Unlogged(ctx context.Context, s *Conn) (*check.Reason, error) {
	end, err := ReadLogEnd(ctx, s)
	if err != nil || end.onlyLogged == "" && end.notLogged == "" {
		return nil, err
	}
	rows, err := s.Texts(ctx, "SELECT COALESCE(DATABASE(), '')")
	if err != nil {
		return nil, fmt.Errorf("ask for the database: %w", err)
	}
	schemas := []string{c.Schema}
	for i := range c.Tables {
		schemas = append(schemas, c.Tables[i].Schema)
	}
	for _, schema := range schemas {
		if schema == "" {
			schema = rows[0][0]
		}
		// With both settings, the second one means nothing.
		switch {
		case schema == "":
		case end.onlyLogged != "" && !listed(end.onlyLogged, schema):
			return &check.Reason{What: fmt.Sprintf("binlog_do_db is %s: the log does not hold database %s", end.onlyLogged, schema),
				Fix: "take binlog_do_db out of the server's configuration, or add binlog_do_db = " + schema + ", and restart it"}, nil
		case end.onlyLogged == "" && listed(end.notLogged, schema):
			return &check.Reason{What: fmt.Sprintf("binlog_ignore_db is %s: the log does not hold database %s", end.notLogged, schema),
				Fix: "take binlog_ignore_db = " + schema + " out of the server's configuration, and restart it"}, nil
		}
	}
	return nil, nil
}

// listed reports whether a list of databases, as the server prints it, has one.
func listed(list, schema string) bool {
	return list == schema || slices.Contains(strings.Split(list, ","), schema)
}

// Logged refuses a server that keeps what the relay needs out of its log.
func (c *Config) Logged(ctx context.Context, s *Conn) error {
	f, err := c.Unlogged(ctx, s)
	if err == nil && f != nil {
		err = fmt.Errorf("%s: %s: %w", f.What, f.Fix, source.ErrStop)
	}
	return err
}
