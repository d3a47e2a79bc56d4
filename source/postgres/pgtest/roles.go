package pgtest

import (
	"context"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Traps creates operators and functions in schema public, as a role that may do nothing else. They fit better than the server's, do the same, and
// record who calls them. The test fails if another role does.
func (r *Rig) Traps() {
	r.T.Helper()
	r.Exec("CREATE TABLE public.loot (who text, what text)")
	r.Exec("GRANT INSERT ON public.loot TO PUBLIC; GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC")
	mallory := r.Role("mallory", "")
	sql := []string{"SET ROLE " + sqltext.Ident(mallory)}
	trap := func(name, args, returns, result string) {
		sql = append(sql, fmt.Sprintf(`CREATE FUNCTION public.%[1]s(%[2]s) RETURNS %[3]s LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO public.loot VALUES (current_user, %[4]s); %[5]s; END $$`, name, args, returns, sqltext.Literal(name+"("+args+")"), result))
	}
	for i, pair := range [][2]string{{"varchar", "varchar"}, {"varchar", "text"}, {"text", "varchar"}, {"oid", "regclass"}, {"regclass", "oid"}, {"name", "varchar"}} {
		for j, op := range []string{"=", "<>", "<", ">"} {
			name := fmt.Sprintf("trap_%d_%d", i, j)
			as := "text"
			if strings.Contains(pair[0]+pair[1], "oid") {
				as = "oid"
			}
			trap(name, pair[0]+", "+pair[1], "boolean", "RETURN $1::"+as+" OPERATOR(pg_catalog."+op+") $2::"+as)
			sql = append(sql, fmt.Sprintf("CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%s)", op, pair[0], pair[1], name))
		}
	}
	for _, typ := range []string{"text", "uuid", "bigint", "boolean"} {
		trap("unnest", typ+"[]", "SETOF "+typ, "RETURN QUERY SELECT * FROM pg_catalog.unnest($1)")
	}
	trap("octet_length", "varchar", "integer", "RETURN pg_catalog.octet_length($1::text)")
	trap("left", "varchar, integer", "text", "RETURN pg_catalog.left($1::text, $2)")
	trap("obj_description", "oid, text", "text", "RETURN pg_catalog.obj_description($1, $2::name)")
	r.Exec(strings.Join(append(sql, "RESET ROLE"), "; "))
	r.T.Cleanup(func() {
		if r.T.Failed() {
			return
		}
		r.Conn = r.Connect() // the rig's session may have ended with its server
		if got := r.Text("SELECT pg_catalog.string_agg(DISTINCT who || ' ran ' || what, ', ') FROM public.loot WHERE who OPERATOR(pg_catalog.<>) $1::text",
			mallory); got != "" {
			r.T.Errorf("what others created was run: %s", got)
		}
	})
}

// Role makes a role that can log in, as long as the test takes, and grants it something.
func (r *Rig) Role(name, grants string) string {
	r.T.Helper()
	name += "_" + r.DB
	name = name[:min(len(name), 60)]
	r.Exec("CREATE ROLE " + sqltext.Ident(name) + " LOGIN PASSWORD 'p'")
	r.T.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + sqltext.Ident(name) + " CASCADE", "DROP ROLE " + sqltext.Ident(name)} {
			if err := r.PG.Exec(context.Background(), r.DB, sql); err != nil {
				r.T.Logf("%s: %v", sql, err) // the server may be stopped
			}
		}
	})
	if grants != "" {
		r.Exec(grants)
	}
	return name
}

// As is the configuration of a connection as another role.
func (r *Rig) As(role string) session.Config {
	cfg := r.Cfg
	cfg.URL = strings.Replace(r.PG.SocketURL(r.DB), "postgres@", role+":p@", 1)
	return cfg
}
