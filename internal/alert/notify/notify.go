// Package notify sends alerts through sinks. What cannot be sent is tried again, later and later. A newer message about the same alert takes the place of
// one that was not sent, so that no more messages wait than there are alerts.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A Recipient is a sink that alerts are sent through.
type Recipient struct {
	Name, Kind string
	Sink       sink.Sink
}

// A Config is what a Sender is made of.
type Config struct {
	Place alert.Place
	To    []Recipient
	// Refused is called if a sink's destination refuses tailbox itself; nil: nobody asks.
	Refused func()
	// Hide takes secrets out of a text.
	Hide   func(string) string
	Logger *slog.Logger
}

const (
	// firstRetry and lastRetry are the delays after failures, each twice the one before.
	firstRetry, lastRetry = time.Second, 5 * time.Minute
	// callTime bounds one call to a sink, and lastCall all calls after the end.
	callTime, lastCall = time.Minute, 3 * time.Second
	// most is how many alerts one text holds; the others are counted.
	most = 20
)

// A Sender sends alerts to all recipients, each at its own pace.
type Sender struct {
	mail []*mailbox
}

// New makes a Sender.
func New(c Config) *Sender {
	s := &Sender{}
	for _, to := range c.To {
		s.mail = append(s.mail, &mailbox{to: to, cfg: c, waiting: map[alert.Key]alert.Message{}, news: make(chan struct{}, 1)})
	}
	return s
}

// Send has messages sent. It does not block.
func (s *Sender) Send(ms []alert.Message) {
	for _, m := range s.mail {
		m.put(ms)
	}
}

// Run sends until ctx ends. What waits then is tried once more.
func (s *Sender) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, m := range s.mail {
		wg.Go(func() { m.run(ctx) })
	}
	wg.Wait()
}

// TakeOver has sent what another Sender, which does not run any more, could not send: to the recipient of the same name, or to all if there is none.
func (s *Sender) TakeOver(other *Sender) {
	for _, left := range other.mail {
		own := func(m *mailbox) bool { return m.to.Name == left.to.Name }
		ms := left.take()
		for _, m := range s.mail {
			if len(ms) > 0 && (own(m) || !slices.ContainsFunc(s.mail, own)) {
				m.put(ms)
			}
		}
	}
}

// A mailbox holds what waits for one recipient.
type mailbox struct {
	to   Recipient
	cfg  Config
	news chan struct{}

	mu      sync.Mutex
	waiting map[alert.Key]alert.Message
	order   []alert.Key
}

// put adds messages, each in the place of an older one about the same alert.
func (b *mailbox) put(ms []alert.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range ms {
		if _, there := b.waiting[m.Key]; !there {
			b.order = append(b.order, m.Key)
		}
		b.waiting[m.Key] = m
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// take takes everything that waits.
func (b *mailbox) take() (ms []alert.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.order {
		ms = append(ms, b.waiting[k])
	}
	b.order = nil
	clear(b.waiting)
	return ms
}

// putBack puts messages that were not sent before what came meanwhile. What is newer about the same alert stays.
func (b *mailbox) putBack(ms []alert.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first []alert.Key
	for _, m := range ms {
		if _, newer := b.waiting[m.Key]; !newer {
			b.waiting[m.Key] = m
			first = append(first, m.Key)
		}
	}
	b.order = append(first, b.order...)
}

func (b *mailbox) run(ctx context.Context) {
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
			defer cancel()
			if left := b.send(last, b.take()); left.err != nil {
				b.putBack(left.messages)
				b.cfg.Logger.Warn("alerts are not sent yet, and this configuration or process ends", "sink", b.to.Name, "alerts", len(left.messages), "error", left.err)
			}
			return
		case <-b.news:
		}
		for wait = 0; ctx.Err() == nil; {
			left := b.send(ctx, b.take())
			if left.err == nil {
				break
			}
			b.putBack(left.messages)
			wait = max(min(max(2*wait, firstRetry), lastRetry), left.after)
			b.cfg.Logger.Warn("alerts cannot be sent: trying again", "sink", b.to.Name, "alerts", len(left.messages), "error", left.err, "in", wait.String())
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}

// unsent are messages that a sink did not take, and why. after is how long it asked to wait.
type unsent struct {
	messages []alert.Message
	after    time.Duration
	err      error
}

// send sends messages. What the sink refuses for good is logged and given up.
func (b *mailbox) send(ctx context.Context, ms []alert.Message) unsent {
	for len(ms) > 0 {
		n := 1
		if b.to.Kind != kindHTTP {
			n = len(ms)
		}
		err := Deliver(ctx, b.to, b.cfg.Place, compose(b.to.Kind, b.cfg.Place, ms[:n]))
		if err != nil {
			class, after, _ := sink.Classify(err)
			err = sink.Clean(err, b.cfg.Hide)
			if class == sink.ClassMisconfigured && b.cfg.Refused != nil {
				b.cfg.Refused()
			}
			if class != sink.ClassPermanent {
				return unsent{ms, after, err}
			}
			b.cfg.Logger.Error("alerts were refused for good: they are not sent", "sink", b.to.Name, "alerts", n, "error", err)
		}
		ms = ms[n:]
	}
	return unsent{}
}

// A Note is what is sent at once.
type Note struct {
	ID      string
	Subject string
	Text    string
	// Line is JSON with the fields of an alert.
	Line []byte
	At   time.Time
}

const (
	kindHTTP  = "http"
	kindSlack = "slack"
)

// compose makes a note of messages: of one for the kind http, of all others together.
func compose(kind string, place alert.Place, ms []alert.Message) Note {
	first := &ms[0]
	n := Note{At: first.At, Subject: place.Subject(first), ID: noteID(place.Pipeline, first)}
	if kind == kindHTTP {
		n.Line = place.JSON(first)
		return n
	}
	var texts []string
	for i := range ms[:min(most, len(ms))] {
		texts = append(texts, place.Text(&ms[i]))
	}
	if rest := len(ms) - most; rest > 0 {
		texts = append(texts, fmt.Sprintf("And %d more: tailbox status.", rest))
	}
	if len(ms) > 1 {
		// A note that was sent without an answer may have more alerts the next time. A receiver that drops what it has already must not drop these.
		all := fnv.New64a()
		for i := range ms {
			_, _ = fmt.Fprintln(all, noteID(place.Pipeline, &ms[i])) // a hash takes all
		}
		n.ID += fmt.Sprintf("+%016x", all.Sum64())
		n.Subject += fmt.Sprintf(" (and %d more)", len(ms)-1)
	}
	n.Text = strings.Join(texts, "\n\n")
	return n
}

func noteID(pipeline string, m *alert.Message) string {
	return fmt.Sprintf("%s:%s:%s:%s:%d", pipeline, m.Condition, m.Sink, m.Kind, m.At.UnixMilli())
}

// value is the payload as a kind of sink expects it.
func (n *Note) value(kind string) []byte {
	switch kind {
	case kindHTTP:
		return n.Line
	case kindSlack:
		// Slack takes these three characters for its own marks, by which a text could call everybody of a channel.
		return object("text", strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(n.Text))
	}
	return object("subject", n.Subject, "text", n.Text)
}

// object is a JSON object of names and texts in turn.
func object(pairs ...string) []byte {
	fields := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		panic(err) // cannot be: texts only
	}
	return bytes.TrimSpace(b.Bytes())
}

// messageType is the type of the messages that alerts are.
const messageType = "tailbox.alert"

// Deliver sends a note through a sink, once.
func Deliver(ctx context.Context, to Recipient, place alert.Place, n Note) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	value := n.value(to.Kind)
	m := &outbox.Message{ID: n.ID, Type: messageType, Topic: messageType, Payload: value, ContentType: "application/json", CreatedAt: n.At, CommitTime: n.At}
	d := &sink.Delivery{Message: m, Topic: m.Topic, Value: value, Source: place.Pipeline, Attempt: 1}
	if s, ok := to.Sink.(sink.Destinations); ok {
		d.Destination = s.Destination(d)
	}
	for _, err := range to.Sink.Deliver(ctx, []*sink.Delivery{d}) {
		if err != nil {
			return fmt.Errorf("send through sink %s: %w", to.Name, err)
		}
	}
	return nil
}

// Test sends a note that says it is a test.
func Test(ctx context.Context, to Recipient, place alert.Place, now time.Time) error {
	text := fmt.Sprintf("[tailbox %s] test: alerts arrive here", place.Pipeline)
	line, err := json.Marshal(map[string]any{"pipeline": place.Pipeline, "alert": "test", "state": "test", "at": now.UTC(), "subject": text, "text": text})
	if err != nil {
		return fmt.Errorf("make a test: %w", err)
	}
	return Deliver(ctx, to, place, Note{ID: fmt.Sprintf("%s:test:%d", place.Pipeline, now.UnixMilli()), Subject: text, Text: text, Line: line, At: now})
}
