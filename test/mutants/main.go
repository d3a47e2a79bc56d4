// Command mutants breaks the relay in many small ways, one at a time, in a copy of the tree, and shows that a test sees
// each: most by an invariant of the oracle in test/sim, some, where the rule lives in a store, by a named test against the
// real server. A mutant that survives is an error: something that the tests say they prove is not proven.
//
//	go run ./test/mutants [-run REGEXP] [-n SCHEDULES]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "only mutants whose file name matches this expression")
	n := flag.Int("n", 6000, "schedules that a mutant has to survive before it counts as not caught")
	flag.Parse()
	if err := run(*only, *n); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, n int) error {
	pick, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("read -run: %w", err)
	}
	root, err := output("", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	root = strings.TrimSpace(root)
	mutants, err := load(filepath.Join(root, "test", "mutants"), pick)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tailbox-mutants-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := copyTree(root, dir); err != nil {
		return fmt.Errorf("copy the tree: %w", err)
	}
	l := &lab{dir: dir, n: n}
	survivors := 0
	for _, m := range mutants {
		begin := time.Now()
		verdict, seen, err := l.try(m)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.name, err)
		}
		if !seen {
			survivors++
		}
		fmt.Printf("%-9s %-34s %4.0fs  %s\n%44s%s\n", map[bool]string{true: "ok", false: "SURVIVED"}[seen], m.name,
			time.Since(begin).Seconds(), m.what, "", verdict)
	}
	if survivors > 0 {
		return fmt.Errorf("%d of %d mutants survived", survivors, len(mutants))
	}
	fmt.Printf("%d mutants, none survived\n", len(mutants))
	return nil
}

// lab is the copy of the tree that mutants are made in.
type lab struct {
	dir  string
	n    int
	base int // duplicates of the tree as it is; 0 = not counted yet
}

// try applies a mutant, runs what has to see it, and takes it back. seen tells whether it did what was expected.
func (l *lab) try(m *mutant) (verdict string, seen bool, err error) {
	if m.by == byDuplicates && l.base == 0 {
		if l.base, _, err = l.duplicates(); err != nil {
			return "", false, fmt.Errorf("count the duplicates of the tree as it is: %w", err)
		}
	}
	undo, err := m.apply(l.dir)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, undo()) }()
	switch m.by {
	case bySim:
		out, runErr := output(l.dir, "go", "test", "./test/sim", "-count=1", "-run=^TestSim$", "-timeout=20m",
			"-sim.n="+strconv.Itoa(max(l.n, m.schedules)))
		return judge(out, runErr)
	case byDuplicates:
		n, out, runErr := l.duplicates()
		if runErr != nil {
			verdict, _, err := judge(out, runErr)
			return "breaks more than it should: " + verdict, false, err
		}
		return fmt.Sprintf("breaks nothing; %d duplicates instead of %d", n, l.base), n > l.base, nil
	}
	args := append([]string{"test", "-count=1", "-v", "-timeout=10m"}, strings.Fields(m.by)...)
	out, runErr := output(l.dir, "go", args...)
	if runErr == nil && strings.Contains(out, "--- SKIP") {
		return "not run: its server is not there", true, nil
	}
	return judge(out, runErr)
}

var duplicates = regexp.MustCompile(`Duplicates:(\d+)`)

// duplicates runs the schedules with duplicates counted instead of judged.
func (l *lab) duplicates() (n int, out string, err error) {
	out, err = output(l.dir, "go", "test", "./test/sim", "-count=1", "-v", "-run=^TestSim$", "-timeout=10m", "-sim.duplicates",
		"-sim.n="+strconv.Itoa(min(l.n, 2000)))
	if err != nil {
		return 0, out, err
	}
	found := duplicates.FindStringSubmatch(out)
	if found == nil {
		return 0, out, errors.New("the output does not tell how many duplicates there were")
	}
	n, err = strconv.Atoi(found[1])
	return n, out, err
}

func signs() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`seed \d+: .* broken at step .*`),
		regexp.MustCompile(`(?m)^\s*\S+_test\.go:\d+: .*`),
		regexp.MustCompile(`(?m)^(panic|fatal error): .*`),
		regexp.MustCompile(`(?m)^\s*--- FAIL: .*`),
	}
}

// judge reads the output of go test: a mutant is caught when a test fails, not when it does not compile.
func judge(out string, err error) (verdict string, caught bool, _ error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "no test saw it", false, nil
	case !errors.As(err, &exit):
		return "", false, err
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "", false, fmt.Errorf("it does not compile:\n%s", out)
	}
	for _, sign := range signs() {
		if s := sign.FindString(out); s != "" {
			return strings.TrimSpace(s), true, nil
		}
	}
	return "", false, fmt.Errorf("no test failed, but go test did:\n%s", out)
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
