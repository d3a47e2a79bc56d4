package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
)

// A sending is one message as the command line has it. Nil texts were not given.
type sending struct {
	table                   string
	kind, group, topic, key *string
	headers                 map[string]string
}

func newSend() *command {
	var file string
	var s sending
	return &command{
		name: "send", args: "PAYLOAD|-", about: "writes one message into the outbox, as an application would, and prints its id",
		long:    "With -, the payload is read from the standard input; with @FILE, from a file.",
		example: `tailbox send --type OrderPaid --topic order --key 42 '{"order": 42}'`,
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			text := func(name, usage string, into **string) {
				fs.Func(name, usage, func(v string) error { *into = &v; return nil })
			}
			text("type", "`TYPE` of the message, required", &s.kind)
			text("group", "message `GROUP`; where the table makes it of several columns, their values joined by :", &s.group)
			text("topic", "`TOPIC` column (shape debezium: aggregatetype)", &s.topic)
			text("key", "`KEY` column (shape debezium: aggregateid)", &s.key)
			headersFlag(fs, &s.headers)
			fs.StringVar(&s.table, "table", "", "outbox table, `NAME` (default the first of the configuration)")
		},
		run: func(ctx context.Context, sh *shell, args []string) error {
			if len(args) != 1 {
				return wrongUsage("send: give one payload, or - for the standard input")
			}
			if s.kind == nil {
				return wrongUsage("send: give the message's type with --type T")
			}
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			payload, err := readPayload(sh, args[0])
			if err != nil {
				return err
			}
			t, err := s.find(p.config.Source.Tables)
			if err != nil {
				return err
			}
			values, err := s.values(t, payload)
			if err != nil {
				return err
			}
			id, err := insertMessage(ctx, p.config.Source.URL, t, values)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sh.out, id)
			return err
		},
	}
}

func (s *sending) find(tables []outbox.Table) (*outbox.Table, error) {
	var names []string
	for i := range tables {
		t := &tables[i]
		name := strings.TrimPrefix(t.String(), ".")
		if s.table == "" || s.table == name || s.table == t.Name {
			return t, nil
		}
		names = append(names, name)
	}
	return nil, wrongUsage("send: there is no table %q: the configuration has %s", s.table, strings.Join(names, ", "))
}

// values gives each column of the table its value.
func (s *sending) values(t *outbox.Table, payload []byte) (map[string][]byte, error) {
	values := map[string][]byte{}
	put := func(flag, column, value string) error {
		if column == "" {
			return wrongUsage("send: --%s: table %s has no such column: name it under source.tables.columns", flag, t.Name)
		}
		if old, ok := values[column]; ok && string(old) != value {
			return wrongUsage("send: --%s: column %s would get both %q and %q: leave out one of the flags", flag, column, old, value)
		}
		values[column] = []byte(value)
		return nil
	}
	c := &t.Columns
	var errs []error
	for _, one := range []struct {
		flag, column string
		value        *string
	}{{"type", c.Type, s.kind}, {"topic", c.Topic, s.topic}, {"key", c.Key, s.key}} {
		if one.value != nil {
			errs = append(errs, put(one.flag, one.column, *one.value))
		}
	}
	if s.group != nil {
		parts := strings.SplitN(*s.group, ":", max(1, len(c.Group)))
		if len(parts) != len(c.Group) {
			return nil, wrongUsage("send: --group %q: table %s makes the group of its columns %v, joined by :", *s.group, t.Name, c.Group)
		}
		for i, part := range parts {
			errs = append(errs, put("group", c.Group[i], part))
		}
	}
	if len(s.headers) > 0 {
		text, err := json.Marshal(s.headers)
		if err != nil {
			return nil, fmt.Errorf("write headers: %w", err)
		}
		errs = append(errs, put("header", c.Headers, string(text)))
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	values[c.Payload] = payload
	return values, nil
}

// columnsOf tells the type of each column, and whether it has a default.
const columnsOf = `SELECT a.attname, t.typname, a.atthasdef OR a.attidentity <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`

// insertMessage writes the row in a transaction of its own.
func insertMessage(ctx context.Context, url string, t *outbox.Table, values map[string][]byte) (id string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("connect to source.url: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	name := pgx.Identifier{t.Name}.Sanitize()
	if t.Schema != "" {
		name = pgx.Identifier{t.Schema, t.Name}.Sanitize()
	}
	rows, err := conn.Query(ctx, columnsOf, name)
	if err != nil {
		return "", fmt.Errorf("look up table %s: %w: make it with tailbox init, or correct source.tables", name, err)
	}
	types, defaults := map[string]string{}, map[string]bool{}
	var column, kind string
	var hasDefault bool
	if _, err := pgx.ForEachRow(rows, []any{&column, &kind, &hasDefault}, func() error {
		types[column], defaults[column] = kind, hasDefault
		return nil
	}); err != nil {
		return "", fmt.Errorf("look up table %s: %w: make it with tailbox init, or correct source.tables", name, err)
	}
	var columns, places []string
	var args []any
	if idColumn := t.Columns.ID; !defaults[idColumn] {
		columns, places = append(columns, pgx.Identifier{idColumn}.Sanitize()), append(places, "gen_random_uuid()")
		if types[idColumn] != "uuid" {
			places[0] += "::text"
		}
	}
	for _, column := range sortedKeys(values) {
		args = append(args, columnValue(types[column], values[column]))
		columns, places = append(columns, pgx.Identifier{column}.Sanitize()), append(places, fmt.Sprintf("$%d", len(args)))
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) RETURNING %s::text", name, strings.Join(columns, ", "), strings.Join(places, ", "),
		pgx.Identifier{t.Columns.ID}.Sanitize())
	// The server finds out the types of the parameters, which are texts, by their columns.
	if err := conn.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&id); err != nil {
		return "", fmt.Errorf("write to table %s: %w", name, err)
	}
	return id, nil
}

// columnValue is bytes for a column of bytes, else text in the column's own form.
func columnValue(kind string, value []byte) any {
	if kind == "bytea" {
		return value
	}
	return string(value)
}

func sortedKeys(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
