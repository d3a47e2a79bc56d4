package servers

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript waits for the end of its standard input, which comes when we
// close it or when our process ends in any way, SIGKILL included. Each line is
// the process id to watch, 0 for none. At the end it resumes what it watches (a
// paused server sees no other signal), sends it the given signal, kills the
// whole tree after 5 s, and removes the server's directory.
const guardScript = `
dir=$1 signal=$2 pid=0
while read -r line; do pid=$line; done
if [ "$pid" != 0 ]; then
	all=$pid
	for stat in /proc/[0-9]*/stat; do
		{ read -r line <"$stat"; } 2>/dev/null || continue
		set -- ${line##*) }
		if [ "$2" = "$pid" ]; then all="$all ${line%% *}"; fi
	done
	kill -CONT $all
	kill -s "$signal" "$pid"
	for i in 1 2 3 4 5 6 7 8 9 10; do
		kill -0 "$pid" || break
		sleep 0.5
	done
	kill -KILL $all
fi
rm -rf -- "$dir"
`

// guard is a shell beside a server that ends the server when we do.
type guard struct {
	cmd  *exec.Cmd
	line io.WriteCloser
}

// newGuard starts a guard that will end its process with signal (a name without
// SIG) and remove dir.
func newGuard(dir, signal string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", dir, signal)
	// A session of its own: no signal that is sent to the tests reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	line, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open guard's input: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	return &guard{cmd: cmd, line: line}, nil
}

// watch names the process to end; 0 means none.
func (g *guard) watch(pid int) error {
	if _, err := fmt.Fprintln(g.line, pid); err != nil {
		return fmt.Errorf("tell guard about process %d: %w", pid, err)
	}
	return nil
}

// close lets the guard do its work and waits for it.
func (g *guard) close() error {
	if err := g.line.Close(); err != nil {
		return fmt.Errorf("close guard's input: %w", err)
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("wait for guard: %w", err)
	}
	return nil
}
