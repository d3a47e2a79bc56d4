package file_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/file"
	"github.com/tailbox/tailbox/sink/sinktest"
)

func newSink(t *testing.T, path string) *file.Sink {
	t.Helper()
	s, err := file.New(file.Config{Name: "audit", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKit(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{Want: sinktest.WantLine, New: func(t *testing.T) sinktest.Place {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		return sinktest.Place{Sink: newSink(t, path), Arrived: func(t testing.TB) []sinktest.Arrival {
			text, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			as, err := sinktest.ReadLines(text)
			if err != nil {
				t.Fatal(err)
			}
			return as
		}}
	}})
}

func line(id string) []*sink.Delivery {
	return []*sink.Delivery{{Message: &outbox.Message{ID: id}, Attempt: 1, Value: []byte("{}")}}
}

func encoded(id string) string { return string(sink.AppendLine(nil, line(id)[0], "audit")) }

func deliver(t *testing.T, s sink.Sink, id string) {
	t.Helper()
	if answers := s.Deliver(t.Context(), line(id)); answers != nil {
		t.Fatalf("deliver %s: %v", id, answers[0])
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	next := encoded("next")
	for _, test := range []struct {
		name, before, after, err string
	}{
		{name: "empty", after: next},
		{name: "whole lines", before: encoded("1") + encoded("2"), after: encoded("1") + encoded("2") + next},
		{name: "torn line", before: encoded("1") + encoded("2")[:40], after: encoded("1") + next},
		{name: "torn at its first byte", before: encoded("1") + "{", after: encoded("1") + next},
		{name: "nothing but a torn line", before: encoded("1")[:10], after: next},
		{name: "long torn line", before: encoded("1") + `{"id":"` + strings.Repeat("x", 300_000), after: encoded("1") + next},
		{name: "zeros after a power failure", before: encoded("1") + strings.Repeat("\x00", 5000), after: encoded("1") + next},
		{name: "whole line without its end", before: encoded("1") + strings.TrimSpace(encoded("2")), after: encoded("1") + encoded("2") + next},
		{name: "not ours", before: "root:x:0:0", err: "name another file"},
		{name: "not ours after lines", before: encoded("1") + "notes", err: "name another file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newSink(t, path)
			answers := s.Deliver(t.Context(), line("next"))
			if test.err == "" && answers != nil {
				t.Fatal(answers[0])
			}
			if test.err != "" {
				misconfigured(t, answers, test.err)
				test.after = test.before
			}
			if got, _ := os.ReadFile(path); string(got) != test.after {
				t.Errorf("got  %q\nwant %q", got, test.after)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	s := newSink(t, path)
	deliver(t, s, "1")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, "2")
	if err := os.Truncate(path, 0); err != nil { // logrotate's copytruncate
		t.Fatal(err)
	}
	deliver(t, s, "3")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, "4")
	for name, want := range map[string]string{path + ".1": encoded("1"), path: encoded("4")} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSink(t, filepath.Join(dir, "missing", "f"))
	misconfigured(t, s.Deliver(t.Context(), line("1")), "mkdir -p")
	if problems := s.Check(t.Context()); len(problems) != 1 || !strings.Contains(problems[0].Error(), "mkdir -p") {
		t.Errorf("check: %v", problems)
	}
	if err := os.Mkdir(filepath.Join(dir, "missing"), 0o755); err != nil {
		t.Fatal(err)
	}
	if problems := s.Check(t.Context()); problems != nil {
		t.Errorf("check: %v", problems)
	}
	if _, err := os.Stat(filepath.Join(dir, "missing", "f")); !os.IsNotExist(err) {
		t.Errorf("check created the file: %v", err)
	}
	deliver(t, s, "1")

	misconfigured(t, newSink(t, dir).Deliver(t.Context(), line("1")), "not a folder")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	misconfigured(t, newSink(t, fifo).Deliver(t.Context(), line("1")), "kind stdout")
	if problems := newSink(t, fifo).Check(t.Context()); len(problems) != 1 {
		t.Errorf("check of a pipe: %v", problems)
	}
}

func TestTwoRelays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	first, second := newSink(t, path), newSink(t, path)
	deliver(t, first, "1")
	misconfigured(t, second.Deliver(t.Context(), line("2")), "another relay")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, second, "2")
}

// TestFullDisk writes to a file that may not grow, and goes on when it may.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	s := newSink(t, path)
	deliver(t, s, "1")
	// RLIMIT_FSIZE is the one limit that a test can set without a file system of its own; EFBIG takes the place of ENOSPC.
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limited := old
	limited.Cur = uint64(len(encoded("1")) + 50)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Skipf("set a limit on the size of files: %v", err)
	}
	answers := s.Deliver(t.Context(), line("2"))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	misconfigured(t, answers, "write to")
	if got, _ := os.ReadFile(path); !bytes.Equal(got, []byte(encoded("1"))) {
		t.Errorf("after a failed write: %q", got)
	}
	deliver(t, s, "2")
	if got, _ := os.ReadFile(path); string(got) != encoded("1")+encoded("2") {
		t.Errorf("got %q", got)
	}
}

func misconfigured(t *testing.T, answers []error, text string) {
	t.Helper()
	if len(answers) == 0 {
		t.Fatalf("delivered, want an error with %q", text)
	}
	for _, err := range answers {
		if class, _, _ := sink.Classify(err); class != sink.ClassMisconfigured || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v: %v, want misconfigured, with %q", class, err, text)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	err := file.Config{Mode: os.ModeDir}.Validate()
	for _, key := range []string{"name", "path", "mode"} {
		if err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("no problem with %s: %v", key, err)
		}
	}
}
