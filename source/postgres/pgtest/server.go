package pgtest

import (
	"context"
	"testing"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// EncodedDatabase is a database of an encoding that is not the server's usual one.
func EncodedDatabase(t testing.TB, pg *servers.PG, enc session.Encoding) string {
	t.Helper()
	name := pg.NewDatabase(t)
	for _, sql := range []string{"DROP DATABASE " + name,
		"CREATE DATABASE " + name + " ENCODING '" + string(enc) + "' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"} {
		if err := pg.Exec(context.Background(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// WhileDown stops the rig's server, does something, and starts it again.
func (r *Rig) WhileDown(stop func() error, do func()) {
	r.T.Helper()
	if err := stop(); err != nil {
		r.T.Fatal(err)
	}
	do()
	if err := r.PG.Start(); err != nil {
		r.T.Fatal(err)
	}
	r.Conn = r.Connect()
}

// StandbyRig is a rig whose server waits for a standby before it sends anything.
func StandbyRig(t *testing.T) (*Rig, *servers.PG) {
	t.Helper()
	r := NewRig(t, servers.Postgres(t, "17"), SmallDDL, Shape("tailbox", "a"))
	r.Cfg.Failover = true
	r.Src = stream.New(r.Cfg)
	standby := r.PG.AddStandby(t, servers.WithSetting("sync_replication_slots", "on"))
	r.Exec("ALTER SYSTEM SET synchronized_standby_slots = '" + standby.StandbyName + "'")
	r.Exec("SELECT pg_reload_conf()")
	r.Until("the setting", func() bool { return r.Text("SHOW synchronized_standby_slots") == standby.StandbyName })
	return r, standby
}
