package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
)

// An unfit table is one that the relay cannot work with until an operator changes something. It matches source.ErrStop.
type unfit struct{ what, cure string }

func (u *unfit) Error() string { return source.ErrStop.Error() + ": " + u.what + ": " + u.cure }

func (u *unfit) Unwrap() error { return source.ErrStop }

// identifies refuses an id column by whose values rows cannot be found again: arrays, composite types, and what the server cannot compare, as
// json. Of types that are not known the server is asked.
func (t *table) identifies(ctx context.Context, conn *pgx.Conn, base string) error {
	if t.id.exact {
		return nil
	}
	what := "an array, which cannot be an id"
	if !strings.HasSuffix(base, "[]") {
		// This is how rows are looked for, and listed. Of a composite type, unnest gives the members.
		_, err := conn.Exec(ctx, "SELECT FROM unnest(NULL::"+t.id.cast+") WITH ORDINALITY AS v (id, n) JOIN (SELECT NULL::"+base+" AS id) t ON t.id"+t.id.equals+"v.id "+
			"WHERE t.id"+t.id.equals+"ANY (NULL::"+t.id.cast+") AND t.id"+t.id.above+"NULL::text::"+base+" ORDER BY t.id")
		switch state := sqlState(err); {
		case err == nil:
			return nil
		case len(state) != 5 || state[:2] != "42" || state == "42501":
			return storeFault("look at the id of table "+t.String(), err)
		}
		what = "of the type " + base + ", which cannot be an id, because rows are not found by it"
	}
	return &unfit{fmt.Sprintf("column %s of table %s is %s", t.Columns.ID, t, what), "name a column of type uuid, text or bigint under source.tables.columns.id"}
}

// resolve is the table as the relay will see it; nil where that will refuse it, which is a problem that is told here or elsewhere.
func (c *checker) resolve(ctx context.Context, info *tableInfo) (*table, error) {
	t, err := resolveTable(ctx, c.conn, info.Table)
	if u := (*unfit)(nil); errors.As(err, &u) {
		c.add(Problem, u.cure, "%s", u.what)
	}
	if errors.Is(err, source.ErrStop) {
		return nil, nil
	}
	return t, err
}
