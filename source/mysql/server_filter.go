package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// unlogged finds a database that the server keeps out of its log although it has an outbox table, or the relay's own tables, by
// whose changes it is known how far the log was read. Rows are filtered by the database of their table, whatever database
// their session uses.
func (c *config) unlogged(ctx context.Context, s *session) (*flaw, error) {
	end, err := readLogEnd(ctx, s)
	if err != nil || end.onlyLogged == "" && end.notLogged == "" {
		return nil, err
	}
	rows, err := s.texts(ctx, "SELECT COALESCE(DATABASE(), '')")
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
			return &flaw{fmt.Sprintf("binlog_do_db is %s: the log does not hold database %s", end.onlyLogged, schema),
				"take binlog_do_db out of the server's configuration, or add binlog_do_db = " + schema + ", and restart it"}, nil
		case end.onlyLogged == "" && listed(end.notLogged, schema):
			return &flaw{fmt.Sprintf("binlog_ignore_db is %s: the log does not hold database %s", end.notLogged, schema),
				"take binlog_ignore_db = " + schema + " out of the server's configuration, and restart it"}, nil
		}
	}
	return nil, nil
}

// listed tells whether a list of databases, as the server prints it, has one.
func listed(list, schema string) bool {
	return list == schema || slices.Contains(strings.Split(list, ","), schema)
}

// logged refuses a server that keeps what the relay needs out of its log.
func (c *config) logged(ctx context.Context, s *session) error {
	f, err := c.unlogged(ctx, s)
	if err == nil && f != nil {
		err = fmt.Errorf("%s: %s: %w", f.what, f.cure, source.ErrStop)
	}
	return err
}

// databases looks whether the log holds the databases of the tables.
func (c *checker) databases(ctx context.Context) error {
	f, err := c.cfg.unlogged(ctx, c.conn)
	switch {
	case err != nil && (errorCode(err) != 0 || errors.Is(err, source.ErrStop)): // no log, or no right to ask: both are found elsewhere
		return nil
	case err == nil && f != nil:
		c.add(store.Problem, f.cure, "%s", f.what)
	}
	return err
}
