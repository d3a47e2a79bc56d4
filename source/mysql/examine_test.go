package mysql

import (
	"strings"
	"testing"

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
	r.exec("PURGE BINARY LOGS TO '"+r.logFile()+"'", "FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)", insert(3))
	if e, err := r.src.Examine(r.ctx, x.resumed(t).server, x.resume); err != nil || e.Lost != "" {
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
		if x.resumed(t).from.file == 0 {
			t.Fatalf("checkpoint without the prepared transaction: %s", x.resume)
		}
		r.exec("PURGE BINARY LOGS TO '"+r.logFile()+"'", insert(2))
		if e, err := r.src.Examine(r.ctx, x.resumed(t).server, x.resume); err != nil || e.Lost != "" {
			t.Fatalf("examined: %+v, %v", e, err)
		}
		again := r.run(x.resume)
		again.until("2")
		r.finishXA("ROLLBACK", "a")
		r.exec(insert(3))
		again.until("2 3")
	})
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
	return end.name()
}
