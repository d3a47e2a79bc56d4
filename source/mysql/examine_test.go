package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/test/servers"
)

// A GTID domain that an operator has deleted from MariaDB's state, after its files were purged, is no lost log.
func TestDeletedDomainIsNoGap(t *testing.T) {
	t.Parallel()
	r := newSourceRig(t, servers.MySQL(t, KindMariaDB))
	from := r.establish()
	r.exec("SET SESSION gtid_domain_id = 7", insert(1), "SET SESSION gtid_domain_id = 0", "FLUSH BINARY LOGS", insert(2))
	x := r.run(from)
	x.until("1 2")
	x.stop()
	if !strings.Contains(string(x.resume), "7-") {
		t.Fatalf("checkpoint without the domain: %s", x.resume)
	}
	r.purge(r.logFile())
	r.exec("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)", insert(3))
	if e, err := r.src.Examine(r.ctx, resumed(t, x).server, x.resume); err != nil || e.Lost != "" {
		t.Fatalf("examined: %+v, %v", e, err)
	}
	again := r.run(x.resume)
	again.until("3")
}

// An XA transaction that was prepared and forgotten does not hold the log: its file may be purged, and reading goes on behind it.
func TestForgottenXAIsNoGap(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.establish()
		r.prepareXA("a", insert(10))
		r.exec("FLUSH BINARY LOGS", insert(1))
		x := r.run(from)
		x.until("1")
		x.stop()
		if resumed(t, x).from.File == 0 {
			t.Fatalf("checkpoint without the prepared transaction: %s", x.resume)
		}
		r.purge(r.logFile())
		r.exec(insert(2))
		if e, err := r.src.Examine(r.ctx, resumed(t, x).server, x.resume); err != nil || e.Lost != "" {
			t.Fatalf("examined: %+v, %v", e, err)
		}
		again := r.run(x.resume)
		again.until("2")
		r.finishXA("ROLLBACK", "a")
		r.exec(insert(3))
		again.until("2 3")
		again.stop()
		// Rows of a table that nothing else tells of are lost with the file.
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		if e, err := r.src.Examine(r.ctx, resumed(t, x).server, x.resume); err != nil || !strings.Contains(e.Lost, "XA transaction") {
			t.Errorf("examined with a table that is kept: %+v, %v", e, err)
		}
		r.renew()
		if err := r.run(x.resume).fails(); !errors.Is(err, source.ErrGap) {
			t.Errorf("Run with a table that is kept: %v", err)
		}
	})
}

// A transaction whose file was purged is forgotten, but not the others that are prepared.
func TestForgottenXALeavesOthers(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.establish()
		r.prepareXA("a", insert(10))
		r.exec("FLUSH BINARY LOGS")
		second := r.logFile()
		r.prepareXA("b", insert(20))
		r.exec("FLUSH BINARY LOGS", insert(1))
		x := r.run(from)
		x.until("1")
		x.stop()
		r.purge(second)
		r.finishXA("COMMIT", "b")
		r.exec(insert(2))
		again := r.run(x.resume)
		for len(again.messages) == 0 || again.messages[len(again.messages)-1].ID != number(2) {
			again.next("the last message")
		}
		if again.ids() != "20 2" {
			t.Errorf("messages behind the purged file: %s", again.ids())
		}
		again.stop()
		r.finishXA("ROLLBACK", "a")
	})
}

// purge removes the log's files before one. The server keeps a file for a moment after it has begun the next.
func (r *sourceRig) purge(first string) {
	r.t.Helper()
	for r.one("SHOW BINARY LOGS") != first {
		r.exec("PURGE BINARY LOGS TO '" + first + "'")
	}
}

// logFile is the file that the server writes its log to.
func (r *sourceRig) logFile() string {
	r.t.Helper()
	s, err := r.cfg.connect(r.ctx, r.cfg.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = s.close(r.ctx) }()
	end, err := readLogEnd(r.ctx, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return end.FileName()
}

// A log that was reset in the second in which its file was begun is told from the old one by nothing but what stands at the
// checkpoint: where no event begins there, the position is lost. Who asks does not wait for more of the log.
func TestPlaceBetweenEventsIsAGap(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		x := r.run(r.establish())
		r.exec(insert(1))
		x.until("1")
		x.stop()
		at := resumed(t, x)
		examine := func() *source.Examined {
			t.Helper()
			e, err := r.src.Examine(r.ctx, at.server, source.Resume(at.String()))
			if err != nil {
				t.Fatalf("examine %s: %v", at, err)
			}
			return e
		}
		if e := examine(); e.Lost != "" {
			t.Errorf("the end of the log: %s", e.Lost)
		}
		r.exec(insert(2), insert(3))
		if e := examine(); e.Lost != "" {
			t.Errorf("in the log: %s", e.Lost)
		}
		for range 60 {
			at.place.Pos++
			if e := examine(); e.Lost == "" {
				t.Errorf("%s is in the middle of an event, and said to be readable", at)
			}
			if err := r.run(source.Resume(at.String())).fails(); !errors.Is(err, source.ErrGap) {
				t.Errorf("Run from %s, in the middle of an event: %v", at, err)
			}
		}
	})
}

// A file that was begun with other checksums than the server writes now is read as before.
func TestChecksumsChanged(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		from := r.establish()
		for i, algorithm := range []string{"NONE", "CRC32"} {
			x := r.run(from)
			r.exec(insert(3*i + 1))
			x.until(fmt.Sprint(3*i + 1))
			x.stop()
			r.exec(insert(3*i+2), "SET GLOBAL binlog_checksum = "+algorithm, insert(3*i+3))
			if e, err := r.src.Examine(r.ctx, resumed(t, x).server, x.resume); err != nil || e.Lost != "" {
				t.Errorf("examined before %s: %+v, %v", algorithm, e, err)
			}
			again := r.run(x.resume)
			again.until(fmt.Sprint(3*i+2, 3*i+3))
			again.stop()
			from = again.resume
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
	if err := fresh.logEvent(t.Context(), &binlog.Header{Type: binlog.EventFormat, Size: 252, End: 256}, []byte{4, 0, 1}); err != nil || fresh.done != (binlog.Position{}) {
		t.Errorf("complete up to %s behind the description of a file, %v", fresh.done, err)
	}
}
