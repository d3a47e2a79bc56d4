package sink_test

import (
	"errors"
	"strings"
	"testing"
	"time"
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

// Clean replaces secrets in a text of any size before the text is cut, and keeps what an error means.
func TestClean(t *testing.T) {
	t.Parallel()
	hide := func(text string) string { return strings.ReplaceAll(text, "s3cr3t", "***") }
	long := strings.Repeat("s3cr3t", 1000)
	for _, err := range []error{sink.Whole(sink.Throttled(errors.New(long), time.Minute)), sink.Unavailable(errors.New("s3cr3t")), errors.New(long),
		errors.New(strings.Repeat("x", 1<<20)), sink.Permanent(errors.New("none")), errors.New("none")} {
		got := sink.Clean(err, hide)
		class, after, whole := sink.Classify(err)
		gotClass, gotAfter, gotWhole := sink.Classify(got)
		if class != gotClass || after != gotAfter || whole != gotWhole {
			t.Errorf("%.50s: %v %v %v became %v %v %v", err, class, after, whole, gotClass, gotAfter, gotWhole)
		}
		if text := got.Error(); strings.Contains(text, "s3c") || len(text) > 2<<10 {
			t.Errorf("%d bytes: %.50q...", len(text), text)
		}
	}
	if err := errors.New(strings.Repeat("x", 1<<20)); len(sink.Clean(err, nil).Error()) > 2<<10 || !errors.Is(sink.Clean(err, nil), err) {
		t.Error("an error without a class is not bounded, or lost")
	}
}
