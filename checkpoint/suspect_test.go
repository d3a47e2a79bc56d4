package checkpoint_test

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

func TestSuspect(t *testing.T) {
	t.Parallel()
	for _, s := range []checkpoint.CrashCandidate{{}, {Position: outbox.Position{Log: 1, Commit: 1 << 63, N: 7}, Times: 12}} {
		got, err := checkpoint.ParseCrashCandidate(s.String())
		if err != nil || got != s {
			t.Errorf("%q read again: %v, %v", s.String(), got, err)
		}
	}
	p := outbox.Position{Log: 1}.String()
	for _, text := range []string{"x", "x*1", p, p + "*", p + "*0", p + "*x"} {
		if _, err := checkpoint.ParseCrashCandidate(text); err == nil {
			t.Errorf("%q is read without an error", text)
		}
	}
}
