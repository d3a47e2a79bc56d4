package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// A GTID domain that an operator has deleted from MariaDB's state, after its files were purged, is no lost log.
func TestDeletedDomainIsNoGap(t *testing.T) {
	t.Parallel()
	r := newSourceRig(t, servers.MySQL(t, server.KindMariaDB))
	from := r.Establish()
	r.Exec("SET SESSION gtid_domain_id = 7", mysqltest.Insert(1), "SET SESSION gtid_domain_id = 0", "FLUSH BINARY LOGS", mysqltest.Insert(2))
	x := r.Run(from)
	x.Until("1 2")
	x.Stop()
	if !strings.Contains(string(x.Resume), "7-") {
		t.Fatalf("checkpoint without the domain: %s", x.Resume)
	}
	r.purge(r.logFile())
	r.Exec("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)", mysqltest.Insert(3))
	if e, err := r.Src.Examine(r.Ctx, resumed(t, x).server, x.Resume); err != nil || e.Lost != "" {
		t.Fatalf("examined: %+v, %v", e, err)
	}
	again := r.Run(x.Resume)
	again.Until("3")
}

// An XA transaction that was prepared and forgotten does not hold the log: its file may be purged, and reading goes on behind it.
func TestForgottenXAIsNoGap(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.Establish()
		r.prepareXA("a", mysqltest.Insert(10))
		r.Exec("FLUSH BINARY LOGS", mysqltest.Insert(1))
		x := r.Run(from)
		x.Until("1")
		x.Stop()
		if resumed(t, x).from.File == 0 {
			t.Fatalf("checkpoint without the prepared transaction: %s", x.Resume)
		}
		r.purge(r.logFile())
		r.Exec(mysqltest.Insert(2))
		if e, err := r.Src.Examine(r.Ctx, resumed(t, x).server, x.Resume); err != nil || e.Lost != "" {
			t.Fatalf("examined: %+v, %v", e, err)
		}
		again := r.Run(x.Resume)
		again.Until("2")
		r.finishXA("ROLLBACK", "a")
		r.Exec(mysqltest.Insert(3))
		again.Until("2 3")
		again.Stop()
		// Rows of a table that nothing else tells of are lost with the file.
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		if e, err := r.Src.Examine(r.Ctx, resumed(t, x).server, x.Resume); err != nil || !strings.Contains(e.Lost, "XA transaction") {
			t.Errorf("examined with a table that is kept: %+v, %v", e, err)
		}
		r.Renew()
		if err := r.Run(x.Resume).Fails(); !errors.Is(err, source.ErrGap) {
			t.Errorf("Run with a table that is kept: %v", err)
		}
	})
}

// A transaction whose file was purged is forgotten, but not the others that are prepared.
func TestForgottenXALeavesOthers(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.Establish()
		r.prepareXA("a", mysqltest.Insert(10))
		r.Exec("FLUSH BINARY LOGS")
		second := r.logFile()
		r.prepareXA("b", mysqltest.Insert(20))
		r.Exec("FLUSH BINARY LOGS", mysqltest.Insert(1))
		x := r.Run(from)
		x.Until("1")
		x.Stop()
		r.purge(second)
		r.finishXA("COMMIT", "b")
		r.Exec(mysqltest.Insert(2))
		again := r.Run(x.Resume)
		for len(again.Messages) == 0 || again.Messages[len(again.Messages)-1].ID != mysqltest.Number(2) {
			again.Next("the last message")
		}
		if again.IDs() != "20 2" {
			t.Errorf("messages behind the purged file: %s", again.IDs())
		}
		again.Stop()
		r.finishXA("ROLLBACK", "a")
	})
}

// purge removes the log's files before one. The server keeps a file for a moment after it has begun the next.
func (r *sourceRig) purge(first string) {
	r.T.Helper()
	for r.One("SHOW BINARY LOGS") != first {
		r.Exec("PURGE BINARY LOGS TO '" + first + "'")
	}
}

// logFile is the file that the server writes its log to.
func (r *sourceRig) logFile() string {
	r.T.Helper()
	s, err := r.Cfg.Connect(r.Ctx, r.Cfg.URL)
	if err != nil {
		r.T.Fatal(err)
	}
	defer func() { _ = s.Close(r.Ctx) }()
	end, err := server.ReadLogEnd(r.Ctx, s)
	if err != nil {
		r.T.Fatal(err)
	}
	return end.FileName()
}

// A log that was reset in the second in which its file was begun is told from the old one by nothing but what stands at the
// checkpoint: where no event begins there, the position is lost. Who asks does not wait for more of the log.
func TestPlaceBetweenEventsIsAGap(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		x := r.Run(r.Establish())
		r.Exec(mysqltest.Insert(1))
		x.Until("1")
		x.Stop()
		at := resumed(t, x)
		examine := func() *source.Examined {
			t.Helper()
			e, err := r.Src.Examine(r.Ctx, at.server, source.Resume(at.String()))
			if err != nil {
				t.Fatalf("examine %s: %v", at, err)
			}
			return e
		}
		if e := examine(); e.Lost != "" {
			t.Errorf("the end of the log: %s", e.Lost)
		}
		r.Exec(mysqltest.Insert(2), mysqltest.Insert(3))
		if e := examine(); e.Lost != "" {
			t.Errorf("in the log: %s", e.Lost)
		}
		for range 60 {
			at.place.Pos++
			if e := examine(); e.Lost == "" {
				t.Errorf("%s is in the middle of an event, and said to be readable", at)
			}
			if err := r.Run(source.Resume(at.String())).Fails(); !errors.Is(err, source.ErrGap) {
				t.Errorf("Run from %s, in the middle of an event: %v", at, err)
			}
		}
	})
}

// A file that was begun with other checksums than the server writes now is read as before.
func TestChecksumsChanged(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.Establish()
		for i, algorithm := range []string{"NONE", "CRC32"} {
			x := r.Run(from)
			r.Exec(mysqltest.Insert(3*i + 1))
			x.Until(fmt.Sprint(3*i + 1))
			x.Stop()
			r.Exec(mysqltest.Insert(3*i+2), "SET GLOBAL binlog_checksum = "+algorithm, mysqltest.Insert(3*i+3))
			if e, err := r.Src.Examine(r.Ctx, resumed(t, x).server, x.Resume); err != nil || e.Lost != "" {
				t.Errorf("examined before %s: %+v, %v", algorithm, e, err)
			}
			again := r.Run(x.Resume)
			again.Until(fmt.Sprint(3*i+2, 3*i+3))
			again.Stop()
			from = again.Resume
		}
	})
}

// An encrypted file says so behind its description, and says it again to who begins in the middle: that is at no place of the log.
func TestPlaceInAnEncryptedFile(t *testing.T) {
	t.Parallel()
	st := &stream{cur: binlog.Position{Base: "bin", File: 1, Pos: 1000}, opened: true, unproven: true}
	for _, h := range []binlog.Header{{Type: binlog.EventStartEncryption, Size: 40}, {Type: binlog.EventHeartbeat, Size: 39, End: 1000}, {Type: binlog.EventGTID, Size: 42, End: 1042}} {
		if err := errors.Join(st.prove(&h), st.advance(&h)); err != nil {
			t.Fatal(err)
		}
	}
	if st.unproven || st.cur.Pos != 1042 {
		t.Errorf("at %s, unproven: %v", st.cur, st.unproven)
	}
	st.unproven = true
	if err := st.prove(&binlog.Header{Type: binlog.EventGTID, Size: 42, End: 1090}); !errors.Is(err, source.ErrGap) {
		t.Errorf("an event from 1048 on: %v", err)
	}
	// Nothing can be read from between the description and what says so.
	fresh := &stream{cur: binlog.Position{Base: "bin", File: 2, Pos: 256}}
	if err := fresh.logEvent(t.Context(), &binlog.Header{Type: binlog.EventFormat, Size: 252, End: 256}, []byte{4, 0, 1}); err != nil || fresh.out.done != (binlog.Position{}) {
		t.Errorf("complete up to %s behind the description of a file, %v", fresh.out.done, err)
	}
}
