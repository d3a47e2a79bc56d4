package stream

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// statement handles what stands in the log as a statement: DDL, or a change in statement format.
func (st *stream) statement(ctx context.Context, schema, q []byte) error {
	if st.noting {
		st.note(schema, q)
		return nil
	}
	if st.tx.skip {
		return nil
	}
	bare := sqltext.Bare(q)
	tables := st.mentioned(schema, bare)
	if len(tables) == 0 {
		return nil
	}
	verb, rest := sqltext.Verb(sqltext.WithoutSettings(bare))
	switch verb {
	case "TRUNCATE":
		st.count("truncate", 1)
		return nil
	case "INSERT", "REPLACE", "LOAD":
		return st.statementRows(st.inserted(verb, schema, rest, tables))
	case "WITH", "CALL", "SELECT", "DO": // of functions the log has the call, not what they do
		return st.statementRows(tables)
	case "UPDATE", "DELETE":
		st.count(strings.ToLower(verb), 1)
		return nil
	}
	// DDL: the catalog may be another one now. If the table is gone, that is found here.
	clear(st.layouts)
	cat, err := st.watch.refresh(ctx)
	if err != nil {
		return err
	}
	// The log may come before the change is seen; but rows that follow in the log do not.
	st.cat, st.stale = cat, true
	if verb == "CREATE" {
		return st.statementRows(st.createdWithRows(schema, rest))
	}
	return nil
}

// createdWithRows is the table that a statement creates and fills, if it is one of ours. In row format the log has its rows, and
// a statement without a query.
func (st *stream) createdWithRows(schema, rest []byte) []*catalog.Table {
	in, name, ok := sqltext.FilledTarget(rest)
	if !ok {
		return nil
	}
	if in == "" {
		in = string(schema)
	}
	for _, t := range st.cat.tables {
		if strings.EqualFold(t.Schema, in) && strings.EqualFold(t.Name, name) {
			return []*catalog.Table{t}
		}
	}
	return nil
}

// inserted are those of the tables that a statement mentions which it may insert rows into: the one that it names as its target.
// If that is none of ours, it may be a view of one, or have a trigger or a function that inserts into one; but LOAD DATA names
// nothing else.
func (st *stream) inserted(verb string, schema, rest []byte, mentioned []*catalog.Table) []*catalog.Table {
	in, name, ok := sqltext.Target(rest)
	if !ok {
		return mentioned
	}
	if in == "" {
		in = string(schema)
	}
	for _, t := range mentioned {
		if strings.EqualFold(t.Schema, in) && strings.EqualFold(t.Name, name) {
			return []*catalog.Table{t}
		}
	}
	if verb == "LOAD" {
		return nil
	}
	return mentioned
}

// statementRows: rows of one of the tables came in statement format, so the log does not hold them. What a comparison of a table
// with the log finds, it delivers; without one they would be skipped.
func (st *stream) statementRows(tables []*catalog.Table) error {
	const fix = "let no session set binlog_format to STATEMENT or MIXED"
	for _, info := range tables {
		if info.OnDelivered == outbox.Keep {
			return fmt.Errorf("read the binlog at %s: rows of %s were written in statement format, so the log does not hold them: %s; "+
				"to go on without them: tailbox accept-gap --unreadable --why …: %w", st.cur, info, fix, source.ErrStop)
		}
	}
	for _, info := range tables {
		st.count("statement", 1)
		st.cfg.Logger.Error("rows were written in statement format: they are delivered once the table is compared with the log (source.reconcile)",
			"binlog", st.cur.String(), "table", info.String(), "fix", fix)
	}
	return nil
}

// mentioned finds the configured tables that a bare statement names.
func (st *stream) mentioned(schema, bare []byte) (tables []*catalog.Table) {
	lower := bytes.ReplaceAll(bytes.ToLower(bare), []byte("``"), []byte("`"))
	names := func(name string) bool { return bytes.Contains(lower, []byte(strings.ToLower(name))) }
	for _, t := range st.cat.tables {
		if names(t.Name) && (strings.EqualFold(t.Schema, string(schema)) || names(t.Schema)) {
			tables = append(tables, t)
		}
	}
	return tables
}
