package usertable

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store"
)

// An idType says how ids travel: as uuid, as bigint (for all integers), or as text that the server casts.
type idType struct {
	Wire string // uuid, int8 or text
	Cast string // the array's type in SQL
	// Exact: two ids are equal if and only if their texts are (or, for integers and uuids, what these stand for).
	Exact bool
	// Equals and Above are the operators of the type, with their schema: an extension has its own.
	Equals, Above string
}

// idTypeOf chooses the type by the base type of the column.
func idTypeOf(base string) idType {
	switch base {
	case "uuid":
		return idType{"uuid", "pg_catalog.uuid[]", true, sqltext.Equals, sqltext.Above}
	case "smallint", "integer", "bigint":
		return idType{"int8", "pg_catalog.int8[]", true, sqltext.Equals, sqltext.Above}
	case "text", "character varying":
		return idType{"text", "pg_catalog.text[]", true, sqltext.Equals, sqltext.Above}
	default:
		return idType{"text", "pg_catalog.text[]::" + sqltext.Type(base) + "[]", false, sqltext.Equals, sqltext.Above}
	}
}

// findOperators finds Equals and Above of a type that is not the server's own: those by which its btree indexes are ordered.
func (t *idType) findOperators(ctx context.Context, conn *pgx.Conn, base string) error {
	if !strings.Contains(base, ".") {
		return nil
	}
	rows, err := conn.Query(ctx, `SELECT ' OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ') ', a.amopstrategy = 3
		FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
		JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype AND a.amopstrategy IN (3, 5)
		JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
		WHERE c.opcdefault AND c.opcintype = to_regtype($1)`, base)
	if err != nil {
		return err
	}
	var operator string
	var equality bool
	_, err = pgx.ForEachRow(rows, []any{&operator, &equality}, func() error {
		if equality {
			t.Equals = operator
		} else {
			t.Above = operator
		}
		return nil
	})
	return err
}

// Array is the ids as a parameter of the type.
func (t idType) Array(ids []string) (any, error) {
	switch t.Wire {
	case "uuid":
		out := make(uuids, len(ids))
		for i, id := range ids {
			u, err := parseUUID(id)
			if err != nil {
				return nil, err
			}
			out[i] = u
		}
		return out, nil
	case "int8":
		out := make([]int64, len(ids))
		for i, id := range ids {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read id as bigint: %w", err)
			}
			out[i] = n
		}
		return out, nil
	default:
		return ids, nil
	}
}

// fits reports whether an id can be one of the column's. If the column's type was changed, older ids may not fit.
func (t idType) fits(id string) bool {
	var err error
	switch t.Wire {
	case "uuid":
		_, err = parseUUID(id)
	case "int8":
		_, err = strconv.ParseInt(id, 10, 64)
	}
	return err == nil
}

// Findable reports whether the row of a message can be in the table under its id.
func (t *Table) Findable(id string) bool { return !outbox.IsStandInID(id) && t.ID.fits(id) }

// Binary is the id as the server sends it.
func (t idType) Binary(id string) (string, error) {
	switch t.Wire {
	case "uuid":
		u, err := parseUUID(id)
		return string(u[:]), err
	case "int8":
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return "", fmt.Errorf("read id as bigint: %w", err)
		}
		return string(binary.BigEndian.AppendUint64(nil, uint64(n))), nil
	default:
		return id, nil
	}
}

func parseUUID(id string) ([16]byte, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return u, fmt.Errorf("read id %q as uuid: %w", id, err)
	}
	return u, nil
}

// uuids are a parameter of type uuid[], which is encoded without garbage.
type uuids [][16]byte

// Dimensions implements pgtype.ArrayGetter.
func (u uuids) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (u uuids) Index(i int) any { return (*uuidValue)(&u[i]) }

// IndexType implements pgtype.ArrayGetter.
func (uuids) IndexType() any { return (*uuidValue)(nil) }

type uuidValue [16]byte

// UUIDValue implements pgtype.UUIDValuer.
func (u *uuidValue) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: *u, Valid: true}, nil }

// identifies refuses an id column whose values cannot be used to find rows again: arrays, composite types, and types that the server cannot compare,
// such as json. For types that are not known, it asks the server.
func (t *Table) identifies(ctx context.Context, conn *pgx.Conn, base string) error {
	if t.ID.Exact {
		return nil
	}
	what := "an array, which cannot be an id"
	if !strings.HasSuffix(base, "[]") {
		// This is how rows are looked for, and listed. Of a composite type, unnest gives the members.
		_, err := conn.Exec(ctx, "SELECT FROM unnest(NULL::"+t.ID.Cast+") WITH ORDINALITY AS v (id, n) JOIN (SELECT NULL::"+base+" AS id) t ON t.id"+t.ID.Equals+"v.id "+
			"WHERE t.id"+t.ID.Equals+"ANY (NULL::"+t.ID.Cast+") AND t.id"+t.ID.Above+"NULL::text::"+base+" ORDER BY t.id")
		switch state := pgerr.State(err); {
		case err == nil:
			return nil
		case len(state) != 5 || state[:2] != "42" || state == "42501":
			return pgerr.Fault("look at the id of table "+t.String(), err)
		}
		what = "of the type " + base + ", which cannot be an id, because rows are not found by it"
	}
	return &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s is %s", t.Columns.ID, t, what), Fix: "name a column of type uuid, text or bigint under source.tables.columns.id"}
}
