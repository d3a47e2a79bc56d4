package stream

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// After a failover reading goes on at the promoted replica by GTIDs: nothing is lost, and nothing comes twice that was read
// up to the checkpoint, also when the next Run starts before the first checkpoint at the new server.
func TestFailover(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r, replica := newFollowedRig(t, kind)
		primary := r.My
		from := r.Establish()
		x := r.Run(from)
		for i := range 5 {
			r.Exec(mysqltest.Insert(i + 1))
		}
		x.Until("1 2 3 4 5")
		x.Stop()
		was := resumed(t, x).server
		r.Exec(mysqltest.Insert(6), "BEGIN", mysqltest.Insert(7), mysqltest.Insert(8), "COMMIT")
		failOver(t, r, replica)
		e, err := r.Src.Examine(r.Ctx, was, x.Resume)
		if err != nil || e.Lost != "" || !e.Moved || e.Shared != 0 {
			t.Fatalf("examined at the promoted replica: %+v, %v", e, err)
		}
		r.Exec(mysqltest.Insert(9))
		y := r.Run(x.Resume)
		y.Until("6 7 8 9")
		middle := y.Resume
		r.Exec("FLUSH LOGS", mysqltest.Insert(10))
		y.Until("6 7 8 9 10")
		y.Stop()
		for from, want := range map[source.Resume]string{x.Resume: "6 7 8 9 10", middle: "10"} {
			z := r.Run(from)
			z.Until(want)
			for i, m := range z.Messages {
				if was := y.Messages[len(y.Messages)-len(z.Messages)+i]; was.Position != m.Position {
					t.Errorf("message %s was at %s, and is at %s when it is read again", mysqltest.ShortID(m.ID), was.Position, m.Position)
				}
			}
			z.Stop()
		}
		if e, err := r.Src.Examine(r.Ctx, e.SourceID, y.Resume); err != nil || e.Lost != "" || e.Moved {
			t.Errorf("examined the position at the new server: %+v, %v", e, err)
		}
		// The old primary lacks what came since.
		r.Cfg.URL = primary.SocketURL(r.DB)
		r.Renew()
		if e, err := r.Src.Examine(r.Ctx, e.SourceID, y.Resume); err != nil || e.Lost == "" {
			t.Errorf("examined at a server that lacks transactions: %+v, %v", e, err)
		}
		r.Renew() // as if the address led to another server since
		if err := r.Run(y.Resume).Fails(); !errors.Is(err, source.ErrGap) {
			t.Errorf("Run at a server that lacks transactions: %v", err)
		}
	})
}

// newFollowedRig is a rig at a server of its own, and a replica of that, which writes what it follows into its own log.
func newFollowedRig(t *testing.T, kind string) (r *sourceRig, replica *servers.My) {
	t.Helper()
	updates := servers.WithSetting("log_slave_updates", "ON")
	if kind == server.KindMySQL {
		updates = servers.WithSetting("log_replica_updates", "ON")
	}
	primary, replica := servers.MySQL(t, kind), servers.MySQL(t, kind, updates)
	r = newSourceRig(t, primary)
	follow(t, r.Ctx, primary, replica)
	return r, replica
}

// failOver promotes the replica, once it has all, and leads the rig there.
func failOver(t *testing.T, r *sourceRig, replica *servers.My) {
	t.Helper()
	caughtUp(t, r, replica)
	promote(t, r.Ctx, replica)
	r.Cfg.URL = replica.SocketURL(r.DB)
	r.My = replica
	r.Renew()
	r.App = r.Connect()
}

// follow makes a server the replica of another one.
func follow(t *testing.T, ctx context.Context, primary, replica *servers.My) {
	t.Helper()
	statements := []string{
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1", primary.Port),
		"START REPLICA"}
	if primary.Kind == server.KindMariaDB {
		statements = []string{fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1", primary.Port),
			"START SLAVE"}
	}
	if err := replica.Exec(ctx, "", statements...); err != nil {
		t.Fatal(err)
	}
}

// caughtUp waits until a replica has all that its primary has.
func caughtUp(t *testing.T, r *sourceRig, replica *servers.My) {
	t.Helper()
	conn, err := replica.Connect(r.Ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var wait string
	if r.My.Kind == server.KindMySQL {
		wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + r.One("SELECT @@global.gtid_executed") + "', 60)"
	} else {
		wait = "SELECT MASTER_GTID_WAIT('" + r.One("SELECT @@global.gtid_binlog_pos") + "', 60)"
	}
	res, err := conn.Execute(wait)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := res.GetString(0, 0); err != nil || text != "0" {
		t.Fatalf("wait for the replica: %q, %v", text, err)
	}
}

func promote(t *testing.T, ctx context.Context, replica *servers.My) {
	t.Helper()
	statements := []string{"STOP REPLICA", "RESET REPLICA ALL"}
	if replica.Kind == server.KindMariaDB {
		statements = []string{"STOP SLAVE", "RESET SLAVE ALL"}
	}
	if err := replica.Exec(ctx, "", statements...); err != nil {
		t.Fatal(err)
	}
}
