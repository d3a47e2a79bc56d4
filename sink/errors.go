package sink

import (
	"errors"
	"strings"
	"time"
)

// A Class says what an error means for the message and for its sink.
type Class uint8

// Classes of errors. An error without a class is Rejected. Whether a failure of the classes rejected, unavailable, unreachable and misconfigured costs
// the message an attempt is for the relay to say: it depends on what else the destination took.
const (
	// ClassRejected: the destination answered with an error. It is retried after a backoff.
	ClassRejected Class = iota
	// ClassPermanent: trying again cannot help (bad request, too large). One attempt, final.
	ClassPermanent
	// ClassThrottled: the destination asked to slow down. Free.
	ClassThrottled
	// ClassUnreachable: failed before anything was written. It is retried after a backoff.
	ClassUnreachable
	// ClassUnavailable: the destination was asked and is not working (502, 503, 504, a timeout, a connection cut after the
	// request, too few replicas). The message may have been accepted.
	ClassUnavailable
	// ClassMisconfigured: the destination takes nothing from this relay, or this message, until an operator acts there (401, 403, 404, an
	// unknown topic). It is retried after a backoff.
	ClassMisconfigured
	// ClassNotAttempted: the sink did not try, for instance because an earlier delivery of the lane failed. Free.
	ClassNotAttempted
	// ClassCrash is given by the relay alone: the process died while it handled the message.
	ClassCrash
)

func (c Class) String() string {
	return [...]string{"rejected", "permanent", "throttled", "unreachable", "unavailable", "misconfigured", "not_attempted", "crash"}[c]
}

// classified is the one error type behind the constructors.
type classified struct {
	class Class
	after time.Duration
	whole bool
	err   error
}

// maxError bounds the text of an error, in bytes: it is stored with each delivery that failed, and may repeat what a destination said.
const maxError = 2 << 10

func (e *classified) Error() string {
	text := e.err.Error()
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError-len(cutOff)], "") + cutOff
}

// cutOff ends a text that was longer.
const cutOff = "..."

func (e *classified) Unwrap() error { return e.err }

func classify(err error, class Class, after time.Duration) error {
	e := &classified{class: class, after: after, err: err}
	if inner, ok := errors.AsType[*classified](err); ok {
		e.whole = inner.whole
	}
	return e
}

// Permanent says that trying again cannot help.
func Permanent(err error) error { return classify(err, ClassPermanent, 0) }

// Throttled says that the destination asked to wait; after is how long, 0 when it did not say.
func Throttled(err error, after time.Duration) error { return classify(err, ClassThrottled, after) }

// Unreachable says that nothing was written.
func Unreachable(err error) error { return classify(err, ClassUnreachable, 0) }

// Unavailable says that the destination was asked, or may have been, and is not working.
func Unavailable(err error) error { return classify(err, ClassUnavailable, 0) }

// Misconfigured says that an operator has to act at the destination.
func Misconfigured(err error) error { return classify(err, ClassMisconfigured, 0) }

// Rejected is the class of any error without one; it serves to make that visible.
func Rejected(err error) error { return classify(err, ClassRejected, 0) }

// ErrNotAttempted is the answer for a delivery that was not tried because of another one before it.
var ErrNotAttempted = NotAttempted(errors.New("not attempted: an earlier delivery failed"))

// NotAttempted says that the sink did not try this delivery; it is sent again at once, in order.
func NotAttempted(err error) error { return classify(err, ClassNotAttempted, 0) }

// Whole says that the error answers the call as a whole: which of its deliveries caused it is not known. The relay
// narrows it down with smaller calls, and the others spend no attempt. The class of err stays.
func Whole(err error) error {
	class, after, _ := Classify(err)
	return &classified{class: class, after: after, whole: true, err: err}
}

// Clean is err with the secrets taken out of its text by hide, which may be nil, and not longer than any error that has a class. A destination may
// repeat what it was sent, and a sink that was not made here may say anything.
func Clean(err error, hide func(string) string) error {
	class, after, whole := Classify(err)
	if hide != nil {
		text := fullText(err)
		if clean := hide(text); clean != text {
			err = errors.New(clean)
		}
	}
	if _, ok := err.(*classified); ok { //nolint:errorlint // An error that wraps a classified one is not bounded itself.
		return err
	}
	return &classified{class: class, after: after, whole: whole, err: err}
}

// fullText is the text of an error before it was bounded.
func fullText(err error) string {
	for {
		e, ok := err.(*classified) //nolint:errorlint // An error that wraps a classified one has a text of its own.
		if !ok {
			return err.Error()
		}
		err = e.err
	}
}

// Classify tells an error's class, how long a throttled destination asked to wait, and whether the error answers a whole
// call.
func Classify(err error) (class Class, after time.Duration, whole bool) {
	if e, ok := errors.AsType[*classified](err); ok {
		return e.class, e.after, e.whole
	}
	return ClassRejected, 0, false
}
