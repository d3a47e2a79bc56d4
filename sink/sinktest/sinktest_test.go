package sinktest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
)

// shelf is a sink in memory that keeps its contract but for one fault.
type shelf struct {
	fault string
	mu    sync.Mutex
	got   []sinktest.Arrival
	down  bool
	calls int
}

func (s *shelf) Deliver(_ context.Context, ds []*sink.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	answers := make([]error, len(ds))
	for i, d := range ds {
		a := sinktest.Arrival{ID: d.Message.ID, Key: bytes.Clone(d.Key), Value: bytes.Clone(d.Value), Headers: sink.AppendHeaders(nil, d, true)}
		for n := range a.Headers {
			a.Headers[n].Value = bytes.Clone(a.Headers[n].Value)
		}
		switch {
		case s.down && s.fault == "permanent when down":
			answers[i] = sink.Permanent(errors.New("down"))
			continue
		case s.down:
			answers[i] = sink.Unreachable(errors.New("down"))
			continue
		case s.fault == "empty is nil" && len(a.Value) == 0:
			a.Value = nil
		case s.fault == "drops a header":
			a.Headers = a.Headers[1:]
		case s.fault == "keeps memory":
			a.Value = d.Value
		case s.fault == "holes" && len(ds) > 2 && i == 1:
			answers[i] = errors.New("no")
			continue
		case s.fault == "whole" && len(ds) == 1 && s.calls == 5:
			answers[i] = sink.Whole(errors.New("no"))
			continue
		}
		s.got = append(s.got, a)
		if s.fault == "twice" && i == 1 {
			s.got = append(s.got, a)
		}
	}
	if s.fault == "reverses" {
		slices.Reverse(s.got[len(s.got)-len(ds):])
	}
	if s.fault == "short" {
		return answers[:len(answers)/2]
	}
	return answers
}

func (s *shelf) Limits() sink.Limits { return sink.Limits{Batch: 50, Concurrency: 4, Run: 50} }

func (s *shelf) Close(context.Context) error { return nil }

func (s *shelf) arrived(testing.TB) []sinktest.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *shelf) set(down bool) func(testing.TB) {
	return func(testing.TB) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.down = down
	}
}

// faultVariable makes TestShelf, in a process of its own, run the kit on a sink with that fault.
const faultVariable = "SINKTEST_FAULT"

func TestShelf(t *testing.T) {
	fault := os.Getenv(faultVariable)
	sinktest.Run(t, sinktest.Harness{New: func(*testing.T) sinktest.Place {
		s := &shelf{fault: fault}
		return sinktest.Place{Sink: s, Arrived: s.arrived, Stop: s.set(true), Start: s.set(false)}
	}})
}

// TestKitFindsFaults runs the kit on sinks that break their contract: it has to fail on each, in the right test.
func TestKitFindsFaults(t *testing.T) {
	t.Parallel()
	for fault, test := range map[string]string{
		"reverses": "Order", "holes": "Order", "twice": "Order", "short": "Order", "keeps memory": "NothingKept",
		"empty is nil": "Content", "drops a header": "Content", "whole": "NothingKept", "permanent when down": "Restart",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestShelf$/^"+test+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestShelf/"+test) {
				t.Errorf("the kit did not fail: %v\n%s", err, out)
			}
		})
	}
}
