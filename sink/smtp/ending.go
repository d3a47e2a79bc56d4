package smtp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/textproto"
	"strings"
	"sync"
	"time"

	mailsmtp "github.com/wneessen/go-mail/smtp"

	"github.com/tailbox/tailbox/sink"
)

// A server that has a whole mail may take minutes to answer, because a filter reads it first. If the sink sends the mail again meanwhile, there are
// two mails. If the call waits for minutes, the relay does not notice a server that hangs. So after the configuration's timeout the call ends
// without the answer, and the connection stays open. The mail's next attempt asks for the answer, and does not send the mail again.

const (
	// longestEnd is how long a server may take to answer a whole mail (RFC 5321, 4.5.3.2.6).
	longestEnd = 10 * time.Minute
	// An answer that no attempt has asked for is kept for keptAnswer, and mostEndings at once. Both are beyond what the relay's delays need.
	keptAnswer  = time.Hour
	mostEndings = 1000
	// mostAnswer bounds the text of an answer that is kept.
	mostAnswer = 4 << 10
)

const stepEnd = "end of DATA"

// ending is the end of a mail that the server has, and the answer to it.
type ending struct {
	session *session
	began   time.Time
	done    chan struct{} // closed when the answer is there, or when the connection has ended without one
	// took, text and err are set when done is closed. err is nil if the server has accepted the mail.
	took time.Duration
	text string
	err  error

	// mail is set when a call ends before the answer. From then on a goroutine waits for done: watched. parted: the answer came when no call
	// waited, and the session was given back. They change with the lock of endings only.
	mail            mailKey
	watched, parted bool
}

// finish writes the end of a mail, and reads the answer while the caller waits or goes away.
func (ss *session) finish(w io.WriteCloser, longest time.Duration) (*ending, error) {
	began := time.Now()
	if err := ss.conn.SetDeadline(began.Add(longest)); err != nil {
		return nil, sink.Unreachable(fmt.Errorf("send to %s: the mail was not written to its end, and so not accepted: %w", ss.address, err))
	}
	e := &ending{session: ss, began: began, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.err = w.Close()
		e.took = time.Since(began)
		if closer, ok := w.(*mailsmtp.DataCloser); ok {
			e.text = short(closer.ServerResponse())
		}
		if answer, ok := errors.AsType[*textproto.Error](e.err); ok {
			e.err = &textproto.Error{Code: answer.Code, Msg: short(answer.Msg)}
		}
	}()
	return e, nil
}

// short copies a text, so that a long one does not stay in memory.
func short(text string) string {
	if len(text) <= mostAnswer {
		return text
	}
	return strings.Clone(text[:mostAnswer])
}

// over reports whether nothing more will come.
func (e *ending) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// answered reports whether the server has said something. It is called when done is closed.
func (e *ending) answered() bool {
	_, refused := errors.AsType[*textproto.Error](e.err)
	return e.err == nil || refused
}

// answer is what the server said to the mail. It is called when done is closed.
func (e *ending) answer(l *letter, receipt *sink.Receipt) (usable bool, err error) {
	switch {
	case e.err == nil:
		receipt.Set("250 " + e.text)
		return true, nil
	case !e.answered():
		return false, sink.Unavailable(fmt.Errorf("send to %s: no answer to the mail (possible duplicate: the server may have accepted it): %w",
			e.session.address, e.err))
	}
	return e.session.refused(stepEnd, e.err, refusedMail, l.to)
}

// mailKey identifies a mail: it is the same at each attempt.
type mailKey [sha256.Size]byte

// mailKeyOf tells mails apart by all that the server gets, but for the number of the attempt.
func mailKeyOf(d *sink.Delivery, l *letter) (key mailKey) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", sink.UniqueID(d), l.from)
	for _, to := range l.to {
		fmt.Fprintf(sum, " %q", to.address)
	}
	before, after, _ := bytes.Cut(l.data, fmt.Appendf(nil, "\r\n%s%s: %d\r\n", metadataPrefix, metadataAttempt, d.Attempt))
	sum.Write(before)
	sum.Write(after)
	sum.Sum(key[:0])
	return key
}

// endings are those whose answers came, or will come, when no call waits for them. Safe for concurrent use.
type endings struct {
	sink *Sink

	mu    sync.Mutex
	mails map[mailKey]*ending
	took  time.Duration // until the last answer of the server
	shut  bool
}

// patience is how long a call waits for an answer: the configuration's timeout, or twice as long as the server took with its last answer. So mails
// do not fail because all of them take long.
func (es *endings) patience() time.Duration {
	es.mu.Lock()
	defer es.mu.Unlock()
	return max(es.sink.cfg.Timeout, min(2*es.took, es.sink.longestEnd))
}

// wait waits for an answer as long as a call may, and reports whether it is there. If ctx ends, the connection does so too.
func (es *endings) wait(ctx context.Context, e *ending) bool {
	began := time.Now()
	for {
		left := es.patience() - time.Since(began)
		if left <= 0 {
			es.impatient()
			return e.over()
		}
		timer := time.NewTimer(left)
		select {
		case <-e.done:
			timer.Stop()
			es.learn(e)
			return true
		case <-ctx.Done():
			timer.Stop()
			_ = e.session.conn.Close() // The answer is not waited for: nothing depends on how it ends.
			<-e.done
			return true
		case <-timer.C: // Meanwhile the server may have shown that it is slow.
		}
	}
}

// impatient has the next call wait for the configuration's timeout only: the server is slower than it was, or hangs.
func (es *endings) impatient() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.took = 0
}

// learn notes how long an answer took.
func (es *endings) learn(e *ending) {
	if !e.answered() {
		return
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	es.took = e.took
}

// keep lets a call end before its answer. It reports false if the caller has to settle it after all: the answer has just come, or too
// many are waited for. As many connections as the sink has calls may wait.
func (es *endings) keep(e *ending, d *sink.Delivery, l *letter) bool {
	key := mailKeyOf(d, l)
	es.mu.Lock()
	defer es.mu.Unlock()
	es.forget()
	if es.shut || e.over() || es.waiting() >= es.sink.cfg.Concurrency || len(es.mails) >= mostEndings || es.mails[key] != nil {
		return false
	}
	if es.mails == nil {
		es.mails = make(map[mailKey]*ending)
	}
	e.mail = key
	es.mails[key] = e
	if !e.watched {
		e.watched = true
		go es.watch(e)
	}
	return true
}

// waiting counts the endings that are not answered. The caller has the lock.
func (es *endings) waiting() (n int) {
	for _, e := range es.mails {
		if !e.parted {
			n++
		}
	}
	return n
}

// forget drops old answers that no attempt has asked for. The caller has the lock.
func (es *endings) forget() {
	maps.DeleteFunc(es.mails, func(_ mailKey, e *ending) bool { return e.parted && time.Since(e.began) >= keptAnswer })
}

// watch takes an answer that no call waits for.
func (es *endings) watch(e *ending) {
	<-e.done
	es.mu.Lock()
	if es.mails[e.mail] != e {
		es.mu.Unlock()
		return // a call waits for it again
	}
	e.parted = true
	if !e.answered() {
		delete(es.mails, e.mail) // the mail's next attempt sends it again
	}
	es.mu.Unlock()
	es.learn(e)
	if usable, _ := e.answer(&letter{}, nil); usable {
		es.sink.put(e.session)
		return
	}
	_ = e.session.conn.Close() // It is given up: nothing depends on how it ends.
}

// claim returns the ending of a mail that the server has already got; nil if the mail is to be sent.
func (es *endings) claim(d *sink.Delivery, l *letter) *ending {
	es.mu.Lock()
	none := len(es.mails) == 0
	es.mu.Unlock()
	if none {
		return nil
	}
	key := mailKeyOf(d, l)
	es.mu.Lock()
	defer es.mu.Unlock()
	e := es.mails[key]
	delete(es.mails, key)
	return e
}

// close ends the connections whose answers nobody will ask for.
func (es *endings) close() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.shut = true
	for _, e := range es.mails {
		if !e.parted {
			_ = e.session.conn.Close() // Nothing depends on how it ends.
		}
	}
}
