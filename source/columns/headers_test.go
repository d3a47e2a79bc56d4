package columns_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// TestHeadersKeepNoMore: what is kept of the headers of a row is what counts, whatever their text has beside them. It is not parallel: it looks at
// the memory of the process.
func TestHeadersKeepNoMore(t *testing.T) {
	const rows = 20
	space := strings.Repeat(" ", 4<<20)
	var kept [][]outbox.Header
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for range rows {
		hs, err := columns.BoundedHeaders(nil, []byte(`{"plain": "value", "esc\u0061ped": "v\u0061lue", "number":`+space+`1}`))
		if err != nil || len(hs) != 3 || hs[1].Name != "escaped" || string(hs[1].Value) != "value" || string(hs[2].Value) != "1" {
			t.Fatalf("got %v, %v", hs, err)
		}
		kept = append(kept, hs)
	}
	if n := int64(held()) - int64(before); n > 2<<20 {
		t.Errorf("%d bytes are held for the headers of %d rows", n, rows)
	}
	runtime.KeepAlive(kept)
}

// PHP writes an empty map as an empty list.
func TestEmptyList(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[]", " [ ]\n", "", " \n", "null"} {
		if hs, err := columns.BoundedHeaders(nil, []byte(text)); err != nil || len(hs) != 0 {
			t.Errorf("%q: got %v, %v", text, hs, err)
		}
	}
	for _, text := range []string{"[", "[1]", `[] {"a": 1}`, "[[]]", `[{"a": "b"}]`} {
		if _, err := columns.BoundedHeaders(nil, []byte(text)); err == nil {
			t.Errorf("%q is taken for headers", text)
		}
	}
}
