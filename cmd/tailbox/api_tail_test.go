package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/internal/tail"
)

// A tailing is a client that watches deliveries.
type tailing struct {
	t     testing.TB
	lines *bufio.Scanner
}

// tail begins to watch, and returns when the relay knows of it.
func (a *apiRig) tail(role, query string) *tailing {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+a.env["ADMIN"]+"/api/v1/tail"+query, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(role))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		a.t.Fatalf("tail as %s: %d %s", role, resp.StatusCode, kind)
	}
	x := &tailing{a.t, bufio.NewScanner(resp.Body)}
	if !x.lines.Scan() || !strings.HasPrefix(x.lines.Text(), ":") {
		a.t.Fatalf("tail as %s begins with %q", role, x.lines.Text())
	}
	return x
}

// next returns the next delivery; ok is false at the end of the stream.
func (x *tailing) next() (d tail.Attempt, ok bool) {
	x.t.Helper()
	for x.lines.Scan() {
		text, found := strings.CutPrefix(x.lines.Text(), "data: ")
		if !found {
			continue
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			x.t.Fatalf("%s: %v", text, err)
		}
		return d, true
	}
	return d, false
}

// TestAPITail: who watches sees each attempt as it is answered, and no more than the role allows. The relay's end ends the stream.
func TestAPITail(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	all, one := a.tail("viewer", ""), a.tail("auditor", "?group=b:1&payload=true")
	if got := a.call("viewer", "GET", "/tail?payload=true", nil); got.status != http.StatusForbidden || !strings.Contains(got.text, "auditor") {
		t.Errorf("payloads for a viewer: %+v", got)
	}
	bad := a.send("a1", "a:1", `{"x": "bad"}`)
	d, ok := all.next()
	if !ok || d.ID != bad || d.Outcome != "failed" || d.Class != "permanent" || d.Attempt != 1 || d.Sink != "api" || d.Type != "a1" || d.Group != "a:1" || d.Position == "" || d.Payload != "" ||
		d.Latency <= 0 || d.Bytes != len(`{"x": "bad"}`) {
		t.Errorf("a failed attempt: %+v", d)
	}
	good := a.send("b1", "b:1", `{"y": 1}`)
	if d, ok = all.next(); !ok || d.ID != good || d.Outcome != "delivered" || d.Class != "" || d.Payload != "" {
		t.Errorf("a delivery: %+v", d)
	}
	if d, ok = one.next(); !ok || d.ID != good || d.Payload != `{"y": 1}` {
		t.Errorf("a delivery for an auditor: %+v", d)
	}
	// It lasts as long as it was asked for, and so longer than the server waits for a request.
	const seconds = 11
	begun := time.Now()
	if d, ok = a.tail("viewer", fmt.Sprintf("?seconds=%d", seconds)).next(); ok || time.Since(begun) < seconds*time.Second {
		t.Errorf("a stream that ends, after %v: %+v", time.Since(begun), d)
	}
	if got := a.stop(); got.code != 0 {
		t.Errorf("stop: %+v", got)
	}
	if d, ok := all.next(); ok {
		t.Errorf("after the end: %+v", d)
	}
}

// A stream ends with the token by which it was opened, also if the file holds another token of the same name by then.
func TestTailEndsWithItsToken(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	stream := a.tail("viewer", "")
	if err := os.WriteFile(filepath.Join(filepath.Dir(a.file), "viewer"), []byte("another-token-of-the-same-viewer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, ok := stream.next(); ok {
		t.Errorf("a delivery: %+v", d)
	}
}
