package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// built is the binary under test, built once a process.
//
//nolint:gochecknoglobals // one binary a process
var built = sync.OnceValues(buildBinary)

// buildBinary builds cmd/tailbox into a temporary directory, unless the environment names one.
func buildBinary() (string, error) {
	if path := os.Getenv("TAILBOX_E2E_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "tailbox-e2e-")
	if err != nil {
		return "", fmt.Errorf("build tailbox: %w", err)
	}
	path := filepath.Join(dir, "tailbox")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tailbox/tailbox/cmd/tailbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build tailbox: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return path, nil
}

// RemoveBinary removes the binary that [Binary] has built. Call it when all tests are over.
func RemoveBinary() error {
	path, err := built()
	if err != nil || path == os.Getenv("TAILBOX_E2E_BINARY") {
		return nil // there is nothing of ours
	}
	return os.RemoveAll(filepath.Dir(path))
}

// Binary is the path of the tailbox binary under test.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Result is what a command of the binary printed, and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Command runs a command of the binary to its end, at most a minute.
func (b *Bed) Command(args ...string) Result {
	b.tb.Helper()
	return b.commandOf(Binary(b.tb), args...) // building it takes a part of the minute, or all
}

// commandOf is Command for another binary.
func (b *Bed) commandOf(binary string, args ...string) Result {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "-c", b.ConfigFile)...)
	cmd.SysProcAttr = dieWithUs()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		b.tb.Fatalf("run tailbox %v: %v\n%s", args, errors.Join(err, ctx.Err()), stderr.String())
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// MustCommand fails the test unless the command exits with 0. It returns what the command printed.
func (b *Bed) MustCommand(args ...string) string {
	b.tb.Helper()
	r := b.Command(args...)
	if r.Code != 0 {
		b.tb.Fatalf("tailbox %v: exit code %d, want 0\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}
