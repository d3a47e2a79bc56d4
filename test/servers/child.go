package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a server's process, its log and the guard that outlives us. It can
// be started again after it ended. Safe for concurrent use.
type child struct {
	dir     string // removed at the end, with everything in it
	log     string
	guard   *guard
	command func() *exec.Cmd

	mu     sync.Mutex
	pid    int           // 0 when not running
	exited chan struct{} // closed when the process was reaped
}

// newChild prepares a process that lives in dir and is started by command. The
// signal named (QUIT, KILL) ends it when we are gone.
func newChild(dir, signal string, command func() *exec.Cmd) (*child, error) {
	g, err := newGuard(dir, signal)
	if err != nil {
		return nil, err
	}
	return &child{dir: dir, log: filepath.Join(dir, "log"), guard: g, command: command}, nil
}

// start runs the process, its output appended to the log.
func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 {
		return fmt.Errorf("start server in %s: it is running already as process %d", c.dir, c.pid)
	}
	out, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer out.Close()
	cmd := c.command()
	cmd.Stdout, cmd.Stderr = out, out
	demote(cmd, c.dir)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := c.guard.watch(cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	exited := make(chan struct{})
	c.pid, c.exited = cmd.Process.Pid, exited
	go func() {
		_ = cmd.Wait() // a killed server's exit status says nothing new
		c.mu.Lock()
		c.pid = 0
		// An error means that the guard is gone; close reports that.
		_ = c.guard.watch(0)
		c.mu.Unlock()
		close(exited)
	}()
	return nil
}

// running returns the process id, 0 if it is not running, and a channel that is
// closed once it has ended.
func (c *child) running() (int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid, c.exited
}

// stop asks the process to end with sig and waits; after 30 s it is killed and
// the error says so.
func (c *child) stop(sig syscall.Signal) error {
	pid, exited := c.running()
	if pid == 0 {
		return nil
	}
	if err := c.resume(); err != nil {
		return err
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal server: %w", err)
	}
	select {
	case <-exited:
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(
			fmt.Errorf("stop server: process %d did not end within 30 s of %v\n%s", pid, sig, tail(c.log, 2000)),
			c.kill())
	}
}

// signal sends the process a signal that it lives on after.
func (c *child) signal(sig syscall.Signal) error {
	pid, _ := c.running()
	if pid == 0 {
		return fmt.Errorf("signal server in %s: it is not running", c.dir)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("signal server: %w", err)
	}
	return nil
}

// kill ends the process and its children at once, as a power cut would. The
// parent is stopped first, so that it neither forks nor reacts meanwhile.
func (c *child) kill() error {
	pid, exited := c.running()
	if pid == 0 {
		return nil
	}
	children, err := c.pause()
	if err != nil {
		return err
	}
	for _, p := range append(children, pid) {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill server: %w", err)
		}
	}
	<-exited
	// The orphans are reaped by init; what matters is that they hold no
	// socket, file or memory any more.
	deadline := time.Now().Add(10 * time.Second)
	for _, p := range children {
		for alive(p) {
			if time.Now().After(deadline) {
				return fmt.Errorf("kill server: process %d is still there 10 s after SIGKILL", p)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// pause stops the process and its children with SIGSTOP and returns the
// children: connections stay open and nothing answers.
func (c *child) pause() ([]int, error) {
	pid, _ := c.running()
	if pid == 0 {
		return nil, fmt.Errorf("pause server in %s: it is not running", c.dir)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("pause server: %w", err)
	}
	children, err := childrenOf(pid)
	if err != nil {
		return nil, err
	}
	for _, p := range children {
		if err := syscall.Kill(p, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("pause server: %w", err)
		}
	}
	// A thread that runs at that moment may still answer somebody.
	deadline := time.Now().Add(10 * time.Second)
	for _, p := range append(slices.Clone(children), pid) {
		for !stopped(p) {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("pause server: process %d goes on 10 s after SIGSTOP", p)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return children, nil
}

// stopped reports whether no thread of a process runs.
func stopped(pid int) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		state := strings.TrimSpace(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if state != "" && !strings.ContainsRune("TtZX", rune(state[0])) {
			return false
		}
	}
	return true
}

// resume undoes pause; it does nothing to a server that is not paused.
func (c *child) resume() error {
	pid, _ := c.running()
	if pid == 0 {
		return fmt.Errorf("resume server in %s: it is not running", c.dir)
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, p := range append(children, pid) {
		if err := syscall.Kill(p, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("resume server: %w", err)
		}
	}
	return nil
}

// close ends the process if it still runs and removes its directory.
func (c *child) close() error {
	return errors.Join(c.kill(), c.guard.close())
}

// demote makes cmd run as the unprivileged user when we are root, in a process
// group of its own (an interrupt typed at the tests is not meant for it), with
// home as its HOME and nothing of our own environment that could configure it.
// Its temporary files are there, too: a MariaDB that starts removes those of all
// others from a folder that they share.
func demote(cmd *exec.Cmd, home string) {
	cmd.Dir = home
	cmd.Env = append(cmd.Env, "HOME="+home, "PATH="+os.Getenv("PATH"), "TMPDIR="+home, "LC_ALL=C", "TZ=UTC")
	for _, name := range []string{"JAVA_HOME", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
}

// childrenOf lists the direct children of a process. Postgres puts each of its
// processes into a session of its own, so a process group would miss them.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []int
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		if _, parent, ok := processState(p); ok && parent == pid {
			children = append(children, p)
		}
	}
	return children, nil
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	state, _, ok := processState(pid)
	return ok && state != "Z" && state != "X"
}

// processState reads a process's state letter and parent from /proc.
func processState(pid int) (state string, parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// "pid (name) state parent …"; the name may itself hold parentheses.
	_, rest, found := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}
