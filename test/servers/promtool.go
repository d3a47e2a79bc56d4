package servers

import (
	"fmt"
	"os/exec"
	"testing"
)

// PromtoolBin returns promtool, Prometheus' program for checking and testing rules, or an error that names what installs it.
func PromtoolBin() (string, error) {
	bin, err := exec.LookPath("promtool")
	if err != nil {
		return "", fmt.Errorf("find promtool: %w; run: make servers", err)
	}
	return bin, nil
}

// Promtool returns promtool for a test. If it cannot be had, that is as with a server.
func Promtool(tb testing.TB) string {
	tb.Helper()
	bin, err := PromtoolBin()
	if err != nil {
		unavailable(tb, err)
	}
	return bin
}
