package usertable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store"
)

// Writes are the names of the columns that the relay writes to rows of the table.
func (t *Table) Writes() (names []string) {
	if len(t.View.Samples(time.Now())) == 0 {
		return nil
	}
	sets := t.Sets()
	for name := range t.Types {
		if slices.ContainsFunc(sets, func(s assignment) bool { return s.Column == sqltext.Ident(name) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// partitionKeyQuery lists those of some columns that are in a partition key of the table or of its partitions. For a key that is an expression,
// pg_depend says that the table depends on its own columns.
const partitionKeyQuery = `
WITH RECURSIVE p AS (
	SELECT to_regclass($1)::oid AS oid
	UNION
	SELECT i.inhrelid FROM p JOIN pg_inherits i ON i.inhparent = p.oid
)
SELECT DISTINCT a.attname::text FROM p JOIN pg_partitioned_table k ON k.partrelid = p.oid JOIN pg_attribute a ON a.attrelid = p.oid AND a.attname = ANY ($2)
WHERE a.attnum = ANY (k.partattrs::int2[]) OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = p.oid AND d.objsubid = a.attnum
	AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.oid AND d.refobjsubid = 0 AND d.deptype = 'i')
ORDER BY 1`

// Moved returns an error if the relay writes a column of the partition key, else nil. The server would then move the row to another partition by a
// DELETE and an INSERT, and the log would show the INSERT as a new message.
func (t *Table) Moved(ctx context.Context, conn *pgx.Conn) (*store.UnsupportedError, error) {
	writes := t.Writes()
	if len(writes) == 0 {
		return nil, nil
	}
	rows, err := conn.Query(ctx, partitionKeyQuery, t.SQL, writes)
	if err != nil {
		return nil, pgerr.Fault("look up the partition key of table "+t.String(), err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	switch {
	case err != nil:
		return nil, pgerr.Fault("look up the partition key of table "+t.String(), err)
	case len(keys) == 0:
		return nil, nil
	}
	names := strings.Join(keys, ", ")
	return &store.UnsupportedError{What: fmt.Sprintf("table %s is partitioned by %s, which the relay writes: a row would move to another partition, and the log would show it as a new message", t, names),
		Fix: fmt.Sprintf("partition it by a column that nobody changes, such as created_at, or leave %s out of source.tables.columns (null) once no row is left that only %s shows as given up: tailbox would deliver it", names, names)}, nil
}
