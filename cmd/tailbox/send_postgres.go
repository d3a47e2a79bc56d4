package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
)

// columnsOf tells the type of each column, and whether it has a default.
const columnsOf = `SELECT a.attname, t.typname, a.atthasdef OR a.attidentity <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`

// insertPostgres writes the row in a transaction of its own.
func insertPostgres(ctx context.Context, url string, t *outbox.Table, values map[string][]byte) (id string, err error) {
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
