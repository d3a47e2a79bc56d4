package stream

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// crowdedLog is a log with more XA transactions than are remembered: some were prepared in an old file, and in one that many others follow
// in, and have not ended; the last of them has an id that one had before, which was rolled back.
func crowdedLog(t *testing.T, kind string) (r *sourceRig, from source.Resume) {
	t.Helper()
	r = newSourceRig(t, servers.MySQL(t, kind))
	r.Cfg.Tables[0].OnDelivered = outbox.Keep
	r.Renew()
	r.source().remembers = 10
	r.prepareXA("a", mysqltest.Insert(10))
	r.prepareXA("e", mysqltest.Insert(40))
	r.prepareXA("again", mysqltest.Insert(60))
	r.prepareXA("rolled", mysqltest.Insert(70))
	r.Exec("FLUSH BINARY LOGS")
	r.prepareXA("b", mysqltest.Insert(20))
	r.finishXA("ROLLBACK", "rolled")
	for i := range 2 * r.source().remembers {
		name := fmt.Sprint("many", i)
		r.prepareXA(name, mysqltest.Insert(100+i))
		r.finishXA("COMMIT", name)
	}
	r.prepareXA("c", mysqltest.Insert(30))
	r.Exec("FLUSH BINARY LOGS")
	r.finishXA("ROLLBACK", "again")
	r.prepareXA("again", mysqltest.Insert(61))
	return r, r.Establish()
}

// What a search remembers is bounded. What it then does not know it looks for again, and finds it; others of the same id it does not.
func TestXASearchRemembers(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r, resume := crowdedLog(t, kind)
		from := mustResume(t, resume)
		w, err := r.source().newWatch(r.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.close(r.Ctx) }()
		d, err := r.source().openDump(r.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.close(r.Ctx) }()
		st := newStream(r.source(), d, w, from)
		if err := st.begin(r.Ctx, from); err != nil {
			t.Fatal(err)
		}
		st.tx.begin = from.place
		id := func(name string) string { return fmt.Sprintf("x'%x',x'',1", r.DB+name) }
		for _, x := range []struct{ name, found string }{
			{"again", "61"}, {"again", ""}, {"many7", ""}, {"b", "20"}, {"c", "30"}, {"a", "10"}, {"e", "40"}, {"rolled", ""}, {"many9", ""}, {"never", ""},
		} {
			p, ok, err := searcher{st}.search(r.Ctx, id(x.name))
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			if ok {
				found = mysqltest.ShortID(p.messages[0].ID)
			}
			if found != x.found {
				t.Errorf("%s: found %q, want %q", x.name, found, x.found)
			}
			if h := &st.xa.searched; len(h.found) > h.most || len(h.ended) > h.most {
				t.Errorf("%s: %d and %d ids are remembered of at most %d", x.name, len(h.found), len(h.ended), h.most)
			}
			if _, ok := st.xa.searched.found[id("c")]; x.name == "many7" && !ok {
				t.Error("what was prepared at the end of a crowded file is not remembered")
			}
		}
		if !st.xa.searched.crowded {
			t.Error("all were remembered")
		}
	})
}

// Rows of transactions that were prepared in a log with many others are delivered where they are committed.
func TestXASearchCrowded(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r, from := crowdedLog(t, kind)
		r.Exec(mysqltest.Insert(1))
		for _, name := range []string{"a", "c", "e", "again", "b"} {
			r.finishXA("COMMIT", name)
		}
		r.Exec(mysqltest.Insert(2))
		for range 2 {
			x := r.Run(from)
			x.Until("1 10 30 40 61 20 2")
			x.Stop()
		}
	})
}

// A file with many transactions, of which most do not matter, is read without remembering them; what is looked for is kept in any case.
func TestXAHuntTakes(t *testing.T) {
	t.Parallel()
	s := &Source{remembers: maxRemembered}
	st := newStream(s, &dump{session: &server.Conn{}}, &watch{cat: &knownTables{}}, &resume{})
	h := searched{most: 100}
	st.xa.xaLookup = h.lookup("it")
	for i := range 1000 {
		st.beginPrepared(fmt.Sprint("open", i))
		st.xa.forget(fmt.Sprint("ended", i))
		if len(st.xa.seen) > 100 || len(st.xa.xaLookup.ended) > 100 {
			t.Fatalf("%d and %d ids are remembered", len(st.xa.seen), len(st.xa.xaLookup.ended))
		}
	}
	st.beginPrepared("it")
	if !st.xa.seen["it"] || !st.xa.xaLookup.ended["it"] || !st.xa.xaLookup.crowded {
		t.Errorf("what is looked for was left out of %d and %d, or nothing was", len(st.xa.seen), len(st.xa.xaLookup.ended))
	}
	if _, ok := h.add(st); !ok || !h.crowded || len(h.found) == 0 || len(h.found) > 100 || len(h.ended) > 100 {
		t.Errorf("%v: %d found, %d ended", ok, len(h.found), len(h.ended))
	}
}
