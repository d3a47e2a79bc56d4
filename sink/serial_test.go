package sink_test

import (
	"context"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

func TestSerial(t *testing.T) {
	t.Parallel()
	s := sink.NewSerial()
	if started, ended := s.Do(t.Context(), func() {}); !started || !ended {
		t.Errorf("free: started %v, ended %v", started, ended)
	}
	ended0, cancel0 := context.WithCancel(t.Context())
	cancel0()
	if started, _ := s.Do(ended0, func() { t.Error("ran with an ended context") }); started {
		t.Error("started with an ended context")
	}

	ctx, cancel := context.WithCancel(t.Context())
	running, release := make(chan struct{}), make(chan struct{})
	go func() { <-running; cancel() }()
	if started, ended := s.Do(ctx, func() { close(running); <-release }); !started || ended {
		t.Errorf("held up: started %v, ended %v, want true, false", started, ended)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go cancel()
	if started, _ := s.Do(ctx, func() { t.Error("ran beside an earlier call") }); started {
		t.Error("started beside an earlier call")
	}
	close(release)
	if started, ended := s.Do(t.Context(), func() {}); !started || !ended {
		t.Errorf("after release: started %v, ended %v", started, ended)
	}
}
