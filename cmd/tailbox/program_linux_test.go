package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestForgetProgram: the program runs on, in less memory. It is the only test of its process that may not run beside others, which would map pages again.
func TestForgetProgram(t *testing.T) { //nolint:paralleltest // see above
	before := mapped(t)
	forgetProgram()
	after := mapped(t)
	if after >= before {
		t.Errorf("%d kB of files are mapped, were %d", after, before)
	}
	t.Logf("%d kB of files are mapped, were %d", after, before)
}

// mapped is how much of files the process holds in memory, in kB.
func mapped(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb
}
