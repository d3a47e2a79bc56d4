package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// If somebody may create functions or operators in a schema of the role's search path, sessions would call these as this role, in place of the
// server's. So sessions look names up in pg_catalog alone, and name all else with its schema. Only statements that write to users' tables run with
// the role's path, because triggers may need it. They name their operators with schemas.
const (
	PinPath      = "SET search_path = pg_catalog, pg_temp"
	PinPathLocal = "SET LOCAL search_path = pg_catalog, pg_temp"
)

// A Path is the search path that a session has by its role, its database and its URL.
type Path struct {
	setting string
	Schemas []string // those in it that exist
}

// pathQuery reads a session's path. It runs before the path is pinned.
const pathQuery = "SELECT pg_catalog.current_setting('search_path'), pg_catalog.array_to_json(pg_catalog.current_schemas(false))"

// rolePathKey is the key under which a connection keeps its Path.
const rolePathKey = "tailbox.rolePath"

// setUp pins the path of a session of one's own, and makes its settings.
func setUp(ctx context.Context, conn *pgconn.PgConn, settings string) error {
	results, err := conn.Exec(ctx, pathQuery+"; "+PinPath+"; "+settings).ReadAll()
	if err != nil {
		return fmt.Errorf("set up session: %w", err)
	}
	path := Path{setting: string(results[0].Rows[0][0])}
	if err := json.Unmarshal(results[0].Rows[0][1], &path.Schemas); err != nil {
		return fmt.Errorf("set up session: read search_path: %w", err)
	}
	conn.CustomData()[rolePathKey] = path
	return nil
}

// PathOf is the path that a session had before it was pinned.
func PathOf(conn *pgconn.PgConn) Path {
	path, _ := conn.CustomData()[rolePathKey].(Path)
	return path
}

// Schema is where the role creates what is named without a schema; "" for nowhere.
func (p Path) Schema() string {
	if len(p.Schemas) == 0 {
		return ""
	}
	return p.Schemas[0]
}

// Set is the statement that gives the role's path to the rest of a transaction. PinPathLocal takes it back.
func (p Path) Set() string {
	return "SELECT pg_catalog.set_config('search_path', " + sqltext.Literal(p.setting) + ", true)"
}

// Find is the SQL that finds a configured table: in its schema or, without one, along the path. NULL: there is none.
func (p Path) Find(t *outbox.Table) string {
	schemas := p.Schemas
	if t.Schema != "" {
		schemas = []string{t.Schema}
	}
	in := []string{"NULL::pg_catalog.regclass"}
	for _, schema := range schemas {
		in = append(in, "pg_catalog.to_regclass("+sqltext.Literal(sqltext.Ident(schema)+"."+sqltext.Ident(t.Name))+")")
	}
	return "coalesce(" + strings.Join(in, ", ") + ")"
}

// In is the configuration with schemas in the place of those that are left to the path: things are created where the role would create them.
func (p Path) In(cfg Config) (Config, error) {
	cfg.Tables = slices.Clone(cfg.Tables)
	schemas := []*string{&cfg.Schema}
	for i := range cfg.Tables {
		schemas = append(schemas, &cfg.Tables[i].Schema)
	}
	for _, schema := range schemas {
		if *schema == "" && p.Schema() == "" {
			return cfg, fmt.Errorf("the search_path of the role names no schema that exists: set source.schema, and schema under source.tables: %w", source.ErrStop)
		}
		*schema = cmp.Or(*schema, p.Schema())
	}
	return cfg, nil
}
