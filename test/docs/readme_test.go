package docs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// patience is how long a command, or a line that has to come, is waited for.
const patience = 3 * time.Minute

// ellipsis stands for anything.
const ellipsis = "…"

// A step is one command of a session, and the lines that it leads to.
type step struct {
	command string
	want    []string
}

// session reads the blocks of a section: one of info "sh" is a command or several, and one of info "console" what the block before it leads to.
func session(section string) []step {
	var steps []step
	for _, b := range blocks(section) {
		switch b.info {
		case "sh":
			steps = append(steps, step{command: b.text})
		case "console":
			last := &steps[len(steps)-1]
			last.want = append(last.want, strings.Split(strings.TrimSpace(b.text), "\n")...)
		}
	}
	return steps
}

// TestReadmeSession runs the README's section "Try it" in one shell, with a database of its own. Each line that the
// README shows after a command has to come, and no others; an ellipsis stands for anything, a line of its own for any
// lines. Lines of one command may come in any order, because the relay in the background prints when it likes.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Try it")
	section, _, _ = strings.Cut(section, "\n## ")
	steps := session(section)
	if len(steps) < 5 {
		t.Fatalf("commands in the README's section Try it: got %d, want a session", len(steps))
	}
	pg := servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))
	sh := startShell(t, "DATABASE_URL="+pg.URL(pg.NewDatabase(t)))
	for _, s := range steps {
		if err := sh.run(t.Context(), s); err != nil {
			t.Fatalf("%s\n%v", s.command, err)
		}
	}
}

// A shell runs commands one after another, and shows what they and those in the background print.
type shell struct {
	in    io.WriteCloser
	lines chan string
	n     int
}

func startShell(t *testing.T, env ...string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), append(env, "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"), "TAILBOX_CONFIG=")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	sh := &shell{in: in, lines: make(chan string)}
	stop := make(chan struct{})
	go func() {
		defer close(sh.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			select {
			case sh.lines <- scan.Text():
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		// The shell and what it left running are one process group of ours.
		err := errors.Join(in.Close(), syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		_ = cmd.Wait() // killed
		if err := errors.Join(err, out.Close()); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	})
	return sh
}

// run runs a command and waits for its end and all the lines that it leads to.
func (sh *shell) run(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sh.n++
	end := fmt.Sprintf("end of command %d: ", sh.n)
	if _, err := fmt.Fprintf(sh.in, "%s\necho \"%s$?\"\n", s.command, end); err != nil {
		return err
	}
	want := slices.DeleteFunc(slices.Clone(s.want), func(line string) bool { return line == ellipsis })
	anything := len(want) < len(s.want)
	var seen []string
	for ended := false; !ended || len(want) > 0; {
		var line string
		var open bool
		select {
		case line, open = <-sh.lines:
		case <-ctx.Done():
		}
		switch code, isEnd := strings.CutPrefix(line, end); {
		case !open:
			return fmt.Errorf("these lines did not come within %v: %q\nprinted:\n%s", patience, want, strings.Join(seen, "\n"))
		case isEnd && code != "0":
			return fmt.Errorf("exit code %s, want 0\nprinted:\n%s", code, strings.Join(seen, "\n"))
		case isEnd:
			ended = true
			continue
		}
		seen = append(seen, line)
		i := matching(want, line)
		if i < 0 && anything {
			continue
		}
		if i < 0 {
			return fmt.Errorf("printed %q, want one of %q", line, want)
		}
		want = append(want[:i], want[i+1:]...)
	}
	return nil
}

// matching finds the first of the wanted lines that a line is; -1 if it is none.
func matching(want []string, line string) int {
	for i, w := range want {
		parts := strings.Split(w, ellipsis)
		for j := range parts {
			parts[j] = regexp.QuoteMeta(parts[j])
		}
		if regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(line) {
			return i
		}
	}
	return -1
}
