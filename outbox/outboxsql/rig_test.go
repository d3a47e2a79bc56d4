package outboxsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxsql"
	"github.com/tailbox/tailbox/source"
	sourcemysql "github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A rig is an empty database, and a driver for it.
type rig struct {
	*testing.T
	db      *sql.DB
	dialect outbox.Dialect
	kind    string
}

// drivers are all that the tests go through: two of Postgres, and MySQL's with and without parameters written into the statement.
func drivers() []string { return append([]string{"pgx", "pq"}, servers.MySQLKinds()...) }

func each(t *testing.T, f func(r *rig)) {
	t.Parallel()
	for _, name := range drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newRig(t, name))
		})
	}
}

func newRig(t *testing.T, driver string) *rig {
	t.Helper()
	r := &rig{T: t, dialect: outbox.MySQL, kind: driver}
	var err error
	switch driver {
	case "pgx", "pq":
		pg := servers.Shared(t, "17")
		name := map[string]string{"pgx": "pgx", "pq": "postgres"}[driver]
		r.dialect, r.kind = outbox.Postgres, "postgres"
		r.db, err = sql.Open(name, pg.URL(pg.NewDatabase(t)))
	default:
		my := servers.SharedMySQL(t, driver)
		u, failed := url.Parse(my.URL(my.NewDatabase(t)))
		if failed != nil {
			t.Fatal(failed)
		}
		c := mysql.NewConfig()
		c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
		c.Passwd, _ = u.User.Password()
		c.InterpolateParams = driver == "mariadb"
		c.ClientFoundRows = true
		r.db, err = sql.Open("mysql", c.FormatDSN())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// exec runs statements, each by itself.
func (r *rig) exec(statements ...string) {
	r.Helper()
	for _, s := range statements {
		if _, err := r.db.ExecContext(r.Context(), s); err != nil {
			r.Fatalf("%s: %v", s, err)
		}
	}
}

// table makes the relay's own table of a shape, and a business table.
func (r *rig) table(shape string) outbox.Table {
	r.Helper()
	t, err := outbox.NewTable(shape, "outbox")
	if err != nil {
		r.Fatal(err)
	}
	var script string
	cfg := source.Config{Pipeline: "shop", Tables: []outbox.Table{t}}
	if r.dialect == outbox.Postgres {
		script, err = postgres.Config{Config: cfg, Publication: "shop"}.SetupScript()
	} else {
		script, err = sourcemysql.Config{Config: cfg, Kind: r.kind}.SetupScript()
	}
	if err != nil {
		r.Fatal(err)
	}
	r.exec("CREATE TABLE orders (id int PRIMARY KEY, state text)")
	if r.dialect == outbox.Postgres {
		if _, err := r.db.ExecContext(r.Context(), script); err != nil {
			r.Fatal(err)
		}
		return t
	}
	for s := range strings.SplitSeq(script, ";\n") {
		if strings.TrimSpace(s) != "" {
			r.exec(s)
		}
	}
	return t
}

func (r *rig) writer(t outbox.Table, o outbox.Options) *outboxsql.Writer {
	r.Helper()
	w, err := outboxsql.New(r.Context(), r.db, r.dialect, t, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// in runs f in a transaction, and commits it.
func (r *rig) in(f func(ctx context.Context, tx *sql.Tx)) {
	r.Helper()
	tx, err := r.db.BeginTx(r.Context(), nil)
	if err != nil {
		r.Fatal(err)
	}
	f(r.Context(), tx)
	if err := tx.Commit(); err != nil {
		r.Fatalf("the transaction cannot be committed: %v", err)
	}
}

// must writes a draft.
func (r *rig) must(w *outboxsql.Writer, tx outboxsql.Tx, d outbox.Draft) string {
	r.Helper()
	id, err := w.Write(r.Context(), tx, d)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// text is the one value that a query returns.
func (r *rig) text(query string) string {
	r.Helper()
	var s sql.NullString
	if err := r.db.QueryRowContext(r.Context(), query).Scan(&s); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return s.String
}

// ids are those in the table, in the order of another column.
func (r *rig) ids(order string) string {
	r.Helper()
	rows, err := r.db.QueryContext(r.Context(), "SELECT id FROM outbox ORDER BY "+order)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			r.Fatal(err)
		}
		list = append(list, id)
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	return fmt.Sprint(list)
}
