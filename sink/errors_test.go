package sink_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

// The text of an error is bounded, whatever a destination said, and its class and cause stay.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	cause := errors.New(strings.Repeat("é", 1<<20))
	for _, err := range []error{sink.Permanent(cause), sink.Whole(sink.Rejected(cause)), sink.Throttled(cause, 0)} {
		if text := err.Error(); len(text) > 2<<10 || len(text) < 2000 || !utf8.ValidString(text) || !strings.HasSuffix(text, "...") {
			t.Errorf("%d bytes: %.50q", len(text), text)
		}
		if !errors.Is(err, cause) {
			t.Error("the cause is lost")
		}
	}
	if got := sink.Rejected(errors.New("short")).Error(); got != "short" {
		t.Error(got)
	}
}
