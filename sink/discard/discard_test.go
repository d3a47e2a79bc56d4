package discard_test

import (
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
	"github.com/tailbox/tailbox/sink/sinktest"
)

func TestKit(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{Blind: true, New: func(t *testing.T) sinktest.Place {
		s, err := discard.New(discard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return sinktest.Place{Sink: s}
	}})
}

func TestDelivered(t *testing.T) {
	t.Parallel()
	s, err := discard.New(discard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver(t.Context(), []*sink.Delivery{{Value: []byte("12345")}, {}})
	if messages, bytes := s.Delivered(); messages != 2 || bytes != 5 {
		t.Errorf("Delivered() = %d, %d, want 2, 5", messages, bytes)
	}
}
