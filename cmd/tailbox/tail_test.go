package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// A screen is what a command prints, read while it runs.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// tailing runs tailbox tail until end is called, which returns its exit code.
func (a *apiRig) tailing(role string, args ...string) (out, errs *screen, end func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	out, errs = &screen{}, &screen{}
	sh := &cli.Shell{In: strings.NewReader(""), Out: out, Err: errs, Now: make(chan struct{}), Env: func(string) (string, bool) { return "", false }}
	code := make(chan int, 1)
	args = append([]string{"tail", "--server", "http://" + a.env["ADMIN"], "--token-file", filepath.Join(filepath.Dir(a.file), role)}, args...)
	go func() { code <- run(ctx, sh, args) }()
	end = sync.OnceValue(func() int { cancel(); return <-code })
	a.t.Cleanup(func() { end() })
	return out, errs, end
}

// What a relay delivers shows on the screen of who watches, also after the relay was away; foreign texts do not steer a terminal.
func TestTail(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	out, errs, end := a.tailing("viewer")
	lines, _, endJSON := a.tailing("auditor", "-o", "json", "--type", "order.paid", "--payload")
	n := 0
	sendUntil := func(what string, ok func() bool) { // a delivery from before the stream begins is not shown
		t.Helper()
		until(t, what, func() bool {
			n++
			a.send("order.paid", fmt.Sprint("order:", n), `{"paid": true}`)
			return ok()
		})
	}
	sendUntil("a delivery on both screens", func() bool {
		return strings.Contains(out.String(), "  delivered  order.paid  order:") && strings.Contains(lines.String(), `"payload":"{\"paid\": true}"`)
	})
	a.send("order.\x1b[31mred", "order:bad", `{"x": "bad"}`)
	until(t, "one that failed", func() bool { return strings.Contains(out.String(), "permanent") })
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "paid\": true") {
		t.Errorf("a viewer sees %q", text)
	}
	for line := range strings.Lines(lines.String()) {
		var one struct{ Type, ID string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Type != "order.paid" || one.ID == "" {
			t.Errorf("a line of JSON: %q, %v", line, err)
		}
	}
	a.stop()
	until(t, "the end to be told", func() bool { return strings.Contains(errs.String(), "asking again in ") })
	before := len(out.String())
	a.start()
	sendUntil("a delivery of the next relay", func() bool { return len(out.String()) > before })
	if code, other := end(), endJSON(); code != exitDone || other != exitDone {
		t.Errorf("exit codes %d, %d\n%s", code, other, errs)
	}
	if got := a.remote("viewer", "tail", "--payload"); got.code != exitFailed || !strings.Contains(got.err, "needs the role auditor") {
		t.Errorf("a viewer asks for payloads: %+v", got)
	}
	if got := a.bare(t.Context(), "tail"); got.code != exitUsage || !strings.Contains(got.err, "name its address") {
		t.Errorf("without an address: %+v", got)
	}
}
