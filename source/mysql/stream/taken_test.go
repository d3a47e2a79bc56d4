package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// events are the ends of the events of the present file of the log.
func (r *sourceRig) events() (file string, ends []uint64) {
	r.T.Helper()
	file = r.logFile()
	res, err := r.App.Execute("SHOW BINLOG EVENTS IN '" + file + "'")
	if err != nil {
		r.T.Fatal(err)
	}
	for i := range res.Values {
		end, err := res.GetUint(i, 4)
		if err != nil {
			r.T.Fatal(err)
		}
		ends = append(ends, end)
	}
	return file, ends
}

// end is where the last transaction ends. MariaDB writes events of its own behind it, some time later.
func (r *sourceRig) end() uint64 {
	r.T.Helper()
	res, err := r.App.Execute("SHOW BINLOG EVENTS IN '" + r.logFile() + "'")
	if err != nil {
		r.T.Fatal(err)
	}
	for i := len(res.Values) - 1; i >= 0; i-- {
		kind, err := res.GetString(i, 2)
		end, err2 := res.GetUint(i, 4)
		if err := errors.Join(err, err2); err != nil {
			r.T.Fatal(err)
		}
		if kind == "Xid" {
			return end
		}
	}
	r.T.Fatal("no transaction is in the log")
	return 0
}

// takeOver takes over from a place with GTIDs.
func (r *sourceRig) takeOver(left source.LeftOff) (source.Resume, error) {
	r.T.Helper()
	r.Cfg.LeftOff = left
	r.Renew()
	snap, err := r.source().TakeOver(r.Ctx)
	if err != nil {
		return "", err
	}
	if sweep, err := snap.Judge(context.Background(), source.Known{First: true}); sweep || err != nil {
		r.T.Errorf("Judge returned %v, %v", sweep, err)
	}
	return snap.Resume(), nil
}

// Another reader may have stopped behind any event, also in the middle of a transaction: from there on, every transaction that it had not read to its end
// comes, and none before.
func TestTakeOverAtAnyEvent(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		r.Exec("FLUSH BINARY LOGS")
		var ends []uint64 // of the transactions of messages 1, 2 to 4, and 5
		for _, write := range []string{mysqltest.Insert(1), "CREATE TABLE other (n int)", mysqltest.Insert(2), mysqltest.Insert(5)} {
			if strings.Contains(write, mysqltest.Number(2)) {
				r.Exec("BEGIN", write, mysqltest.Insert(3), "INSERT INTO other VALUES (1)", mysqltest.Insert(4), "COMMIT")
			} else {
				r.Exec(write)
			}
			if !strings.HasPrefix(write, "CREATE") {
				ends = append(ends, r.end())
			}
		}
		file, all := r.events()
		for _, place := range append([]uint64{4}, all...) {
			resume, err := r.takeOver(source.LeftOff{Position: fmt.Sprintf("%s:%d", file, place)})
			if err != nil {
				t.Fatalf("at %d: %v", place, err)
			}
			var want []string
			for i, ids := range []string{"1", "2 3 4", "5"} {
				if ends[i] > place {
					want = append(want, ids)
				}
			}
			if len(want) == 0 {
				continue // nothing comes, which the place shows
			}
			x := r.Run(resume)
			x.Until(strings.Join(want, " "))
			x.Stop()
		}
		resume, err := r.takeOver(source.LeftOff{Position: fmt.Sprintf("%s:%d", file, ends[2])})
		if err != nil {
			t.Fatal(err)
		}
		r.Exec(mysqltest.Insert(6))
		r.Run(resume).Until("6")
	})
}

// A position that is not of this server's log is refused, with what to do instead.
func TestTakeOverRefuses(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		r.Exec(mysqltest.Insert(1))
		gtids := "SELECT @@global.gtid_executed"
		if kind == server.KindMariaDB {
			gtids = "SELECT @@global.gtid_binlog_pos"
		}
		first := strings.Join(strings.Fields(r.One(gtids)), "")
		r.Exec(mysqltest.Insert(9))
		before := strings.Join(strings.Fields(r.One(gtids)), "")
		middle := r.end()
		r.Exec(mysqltest.Insert(2))
		after := strings.Join(strings.Fields(r.One(gtids)), "")
		file, end := r.logFile(), r.end()
		at := func(pos uint64, gtids string) source.LeftOff {
			return source.LeftOff{Position: fmt.Sprintf("%s:%d", file, pos), GTIDs: gtids}
		}
		for name, left := range map[string]source.LeftOff{"with its GTIDs": at(middle, before), "without GTIDs": at(middle, ""), "at its end": at(end, after), "GTIDs without the last transaction": at(end, before),
			"at the file's beginning": at(4, after)} {
			if _, err := r.takeOver(left); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, left := range map[string]source.LeftOff{
			"beyond the end":                at(end+1, ""),
			"of a file that is not there":   {Position: "bin.999999:4"},
			"of other files":                {Position: "other.000001:4"},
			"in the middle of an event":     at(end-1, after),
			"far behind what the GTIDs say": at(end, first),
		} {
			_, err := r.takeOver(left)
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init, then commit a message") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.takeOver(source.LeftOff{Position: "bin"}); !errors.Is(err, source.ErrStop) {
			t.Errorf("no place: %v", err)
		}
		r.Cfg.LeftOff = source.LeftOff{}
		r.Renew()
		if snap, err := r.source().TakeOver(r.Ctx); snap != nil || err != nil {
			t.Errorf("none is configured: %v, %v", snap, err)
		}
	})
}
