package mysql

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Send writes a row, with values by column, in a transaction of its own, as an application would, and returns its id. An
// id that neither the values nor the server provides is a new UUID.
func Send(ctx context.Context, cfg Config, t *outbox.Table, values map[string][]byte) (id string, err error) {
	s, err := cfg.connect(ctx, cfg.URL)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	info, err := describeTable(ctx, s, t)
	if err != nil {
		return "", err
	}
	idColumn, ok := info.column(t.Columns.ID)
	if !ok {
		return "", fmt.Errorf("write to table %s: it has no column %s: correct source.tables.columns", info, t.Columns.ID)
	}
	row := map[string]string{}
	for name, v := range values {
		if c, ok := info.column(name); ok && (c.kind == kindBytes || c.kind == kindUUID && len(v) == 16) {
			row[name] = "X'" + hex.EncodeToString(v) + "'"
		} else {
			row[name] = quoteLiteral(string(v))
		}
	}
	if given, ok := values[t.Columns.ID]; ok {
		id = string(given)
	} else if idColumn.kind != kindInt {
		id = randomUUID()
		if row[t.Columns.ID], err = info.idLiteral(id); err != nil {
			return "", err
		}
	}
	names := make([]string, 0, len(row))
	for name := range row {
		names = append(names, name)
	}
	slices.Sort(names)
	columns, literals := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		columns[i], literals[i] = quoteIdent(name), row[name]
	}
	sql := "INSERT INTO " + tableName(&info.Table) + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(literals, ", ") + ")"
	if _, err := s.exec(ctx, sql); err != nil {
		return "", fmt.Errorf("write to table %s: %w", info, err)
	}
	if id != "" {
		return id, nil
	}
	rows, err := s.texts(ctx, "SELECT LAST_INSERT_ID()")
	if err != nil {
		return "", fmt.Errorf("ask for the id: %w", err)
	}
	return rows[0][0], nil
}
