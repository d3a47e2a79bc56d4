package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is the program, run by itself.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer
	// ended is closed when it has ended.
	ended chan struct{}
}

// Write implements io.Writer for what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func startProcess(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	return startReading(t, nil, env, args...)
}

// startReading starts the program with a standard input; nil is an empty one.
func startReading(t testing.TB, in *os.File, env []string, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], args...), in, env)
}

// startCommand starts a command that becomes the program. It has no terminal, unless the command brings one.
func startCommand(t testing.TB, cmd *exec.Cmd, in *os.File, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if in != nil {
		p.cmd.Stdin = in
	}
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code tells
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually ended
		<-p.ended
	})
	return p
}

// ends waits for the process, and returns its exit code.
func (p *process) ends() int {
	p.t.Helper()
	timer := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

func (r *rig) process(args ...string) *process {
	return startProcess(r.t, r.environment(), append(args, "-c", r.file)...)
}

func (r *rig) environment() (env []string) {
	for name, value := range r.env {
		env = append(env, name+"="+value)
	}
	return env
}

func TestSignalStopsSoftly(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			r, e := newEndpointRig(t)
			p := r.process("run")
			r.send("a1", "a:1", `{}`)
			until(t, "a1", func() bool { return e.got() == "a1" })
			p.signal(s)
			if code := p.ends(); code != exitDone {
				t.Errorf("exit code %d\n%s", code, p.printed())
			}
			if n := len(r.outbox()); n != 0 {
				t.Errorf("%d rows are left: what was delivered was not settled", n)
			}
		})
	}
}

// TestHangupIsIgnoredWhereItWasAtTheStart: what nohup started outlives its terminal.
func TestHangupIsIgnoredWhereItWasAtTheStart(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	p := startCommand(t, exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "run", "-c", r.file), nil, r.environment())
	r.send("a1", "a:1", `{}`)
	until(t, "a1", func() bool { return e.got() == "a1" })
	p.signal(syscall.SIGHUP)
	r.send("a2", "a:1", `{}`)
	until(t, "a2", func() bool { return strings.Contains(e.got(), "a2") })
	p.signal(syscall.SIGTERM)
	if code := p.ends(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, p.printed())
	}
}

// needHangup skips a test where SIGHUP is ignored: what is started inherits that, as from nohup, and is right to live on.
func needHangup(t *testing.T) {
	t.Helper()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, and so in all that is started")
	}
}

// newHangingRig has an endpoint that tells when its request has arrived, and does not answer until it is released, or the test ends.
func newHangingRig(t *testing.T) (r *rig, arrived <-chan struct{}, release func()) {
	t.Helper()
	r, _ = newEndpointRig(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(answer) })
	tell := sync.OnceFunc(func() { close(asked) })
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		tell()
		<-answer
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(release)
	r.env["API_URL"] = hanging.URL
	return r, asked, release
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	r, arrived, _ := newHangingRig(t)
	p := r.process("run")
	r.send("a1", "a:1", `{}`)
	<-arrived
	p.signal(syscall.SIGTERM)
	until(t, "the soft stop", func() bool { return strings.Contains(p.printed(), "msg=stopping") })
	// One that follows at once is the first one, sent to the group as well; so it is said again until it counts.
	until(t, "the stop at once", func() bool {
		p.signal(os.Interrupt)
		return strings.Contains(p.printed(), "stopped at once")
	})
	if code := p.ends(); code != exitFailed || strings.Contains(p.printed(), "msg=stopped") {
		t.Errorf("exit code %d\n%s", code, p.printed())
	}
	if got := r.outbox(); len(got) != 1 {
		t.Errorf("%d rows are left, want the one in flight", len(got))
	}
}

// outbox lists the types of the rows.
func (r *rig) outbox() []string {
	r.t.Helper()
	rows, err := r.conn.Query(context.Background(), "SELECT type FROM outbox")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	var types []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			r.t.Fatal(err)
		}
		types = append(types, s)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return types
}

// TestOneSignalSentTwiceStopsSoftly: what sends a signal to a process and then to its group means one stop.
func TestOneSignalSentTwiceStopsSoftly(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	p := r.process("run")
	r.send("a1", "a:1", `{}`)
	until(t, "a1", func() bool { return e.got() == "a1" })
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGTERM)
	if code := p.ends(); code != exitDone || strings.Contains(p.printed(), "at once") || !strings.Contains(p.printed(), "msg=stopped") {
		t.Errorf("exit code %d\n%s", code, p.printed())
	}
}

// TestSoftStopIsBounded: a call that does not end is cut off, and the log says so.
func TestSoftStopIsBounded(t *testing.T) {
	t.Parallel()
	r, arrived, _ := newHangingRig(t)
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, r.file, string(text)+"shutdown_timeout: 300ms\n")
	p := r.process("run")
	r.send("a1", "a:1", `{}`)
	<-arrived
	p.signal(syscall.SIGTERM)
	code := p.ends()
	for _, want := range []string{"msg=stopping in_flight=1 at_most=300ms", "shutdown_timeout is over", "msg=stopped"} {
		if code != exitDone || !strings.Contains(p.printed(), want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, p.printed())
		}
	}
	if got := r.outbox(); len(got) != 1 {
		t.Errorf("%d rows are left, want the one in flight", len(got))
	}
}

// TestSignalEndsReading: a command that reads its payload from what does not end is ended by one signal.
func TestSignalEndsReading(t *testing.T) {
	t.Parallel()
	file := write(t, "tailbox.yaml", rigConfig)
	env := []string{"DATABASE_URL=postgres://nobody@localhost/none", "SLOT=none"}
	for name, args := range map[string][]string{
		"send":      {"send", "--type", "T", "-", "-c", file},
		"file":      {"send", "--type", "T", "@/dev/stdin", "-c", file},
		"dead edit": {"dead", "edit", "a1", "--payload", "-", "-c", file},
	} {
		for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			t.Run(name+" "+s.String(), func(t *testing.T) {
				t.Parallel()
				in, into, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer into.Close()
				p := startReading(t, in, env, args...)
				in.Close()
				// No pipe holds so much: when all is written, the program reads.
				if _, err := into.Write(make([]byte, 4<<20)); err != nil {
					t.Fatalf("%v\n%s", err, p.printed())
				}
				p.signal(s)
				if code := p.ends(); code != exitFailed || !strings.Contains(p.printed(), "tailbox: interrupted: read payload") {
					t.Errorf("exit code %d\n%s", code, p.printed())
				}
			})
		}
	}
}
