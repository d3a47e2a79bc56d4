package pgserver

import (
	"fmt"
	"io"
	"os/exec"
)

// guardScript waits for the end of its standard input, which comes when we close it or when our process ends in any way.
// Each line is the process id to watch. At the end it asks that process to quit, as an immediate shutdown of Postgres,
// kills it after 5 s, and removes the folder.
const guardScript = `
dir=$1 pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
	for i in 1 2 3 4 5 6 7 8 9 10; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.5
	done
	kill -KILL "$pid" 2>/dev/null
fi
rm -rf -- "$dir"
`

// A guard is a shell beside a server that ends it when we are gone.
type guard struct {
	cmd  *exec.Cmd
	line io.WriteCloser
}

func newGuard(dir string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", dir)
	cmd.Dir = "/"
	detach(cmd)
	line, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard of Postgres: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of Postgres: %w", err)
	}
	return &guard{cmd: cmd, line: line}, nil
}

// watch names the process to end.
func (g *guard) watch(pid int) error {
	if _, err := fmt.Fprintln(g.line, pid); err != nil {
		return fmt.Errorf("tell the guard of Postgres: %w", err)
	}
	return nil
}

// close lets the guard do its work and waits for it.
func (g *guard) close() error {
	if err := g.line.Close(); err != nil {
		return fmt.Errorf("end the guard of Postgres: %w", err)
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("end the guard of Postgres: %w", err)
	}
	return nil
}
