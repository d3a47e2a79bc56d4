package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/tailbox/tailbox/sink"
)

// Messages choose their topics, and many of these may not exist. So topics are asked for together, in one request after the
// other; what waits for an answer about a topic that is not known yet is at most waitingCalls of the sink's calls; and nothing is
// held while a broker may be making a topic.
const (
	// waitingCalls wait for the first answer about topics. Others leave their question to them, and come again.
	waitingCalls = 2
	// askedTogether is the most topics in one request.
	askedTogether = 100
	// A broker that makes topics by itself says at first that there is none. For creationTime after a topic was first asked for,
	// that is no answer yet; who waits for it comes again after creationPause.
	creationTime  = time.Second
	creationPause = 50 * time.Millisecond
	// mostMissing topics that do not exist are remembered, so that only the first messages wait for their creation. If there are more, a
	// message does not wait: its topic would be forgotten before it is asked for again, and so be waited for without end.
	mostMissing = 1024
	// missingFor is how long a topic is remembered that nobody asks for any more. It is longer than thousands of topics take to be tried in turn: if they
	// were forgotten by then, each would be waited for again.
	missingFor = 10 * time.Minute
	// unreadFor is how long an answer is kept for a call that left its question to others, and mostUnread how many are. Behind ten thousand topics that do
	// not exist, a call comes back half a minute later, when all the others have been answered. If its own answer is lost by then, it asks again, as they all
	// do, and only calls that wait get on.
	unreadFor  = time.Minute
	mostUnread = 16 << 10
	// sweepPause is how long nothing is forgotten after old answers were: to look for them takes long.
	sweepPause = time.Second
)

// errAsked answers deliveries whose topic is being asked for.
var errAsked = sink.NotAttempted(errors.New("not attempted: the brokers are being asked for the topic"))

// questions are the topics that somebody wants to know of.
type questions struct {
	mu      sync.Mutex
	open    map[string]*question // not asked yet
	missing map[string]missing   // do not exist, as far as the brokers say
	unread  map[string]unread    // answers that nobody waited for
	swept   time.Time            // when old ones were last looked for
}

// question is about one topic. found and err are set when done is closed.
type question struct {
	waited bool
	done   chan struct{}
	found  *topic
	err    error
}

type missing struct{ first, last time.Time }

type unread struct {
	err error
	at  time.Time
}

func newQuestions() *questions {
	return &questions{open: make(map[string]*question), missing: make(map[string]missing), unread: make(map[string]unread)}
}

// join returns the open question about a topic, which the caller waits for.
func (q *questions) join(name string) *question {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[name]
	if one == nil {
		one = &question{done: make(chan struct{})}
		q.open[name] = one
	}
	one.waited = true
	return one
}

// leave leaves a question to whoever asks next.
func (q *questions) leave(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[name] == nil && len(q.open) < mostMissing {
		q.open[name] = &question{done: make(chan struct{})}
	}
}

// answer returns what was answered to a question that was left, nil if nothing or not lately. It does so once.
func (q *questions) answer(name string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	one, ok := q.unread[name]
	delete(q.unread, name)
	if !ok || time.Since(one.at) > unreadFor {
		return nil
	}
	return one.err
}

// take takes open questions to be asked together: that about name, and others.
func (q *questions) take(name string) map[string]*question {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := make(map[string]*question)
	take := func(name string, one *question) {
		taken[name] = one
		delete(q.open, name)
	}
	if one := q.open[name]; one != nil {
		take(name, one)
	}
	for other, one := range q.open {
		if len(taken) == askedTogether {
			break
		}
		take(other, one)
	}
	return taken
}

// close answers a question. An error about the topic itself is kept for those who left it.
func (q *questions) close(name string, one *question, found *topic, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one.found, one.err = found, q.patient(name, err)
	if err != nil && !one.waited {
		q.keep(name, one.err, time.Now())
	}
	close(one.done)
}

// keep keeps an answer for a call that did not wait for it. If there is no room, that call asks again.
func (q *questions) keep(name string, err error, now time.Time) {
	if len(q.unread) >= mostUnread && now.Sub(q.swept) >= sweepPause {
		q.swept = now
		for name, one := range q.unread {
			if now.Sub(one.at) > unreadFor {
				delete(q.unread, name)
			}
		}
	}
	if len(q.unread) < mostUnread {
		q.unread[name] = unread{err, now}
	}
}

// patient is err, or that it is no answer yet while a broker may be making the topic.
func (q *questions) patient(name string, err error) error {
	if !errors.Is(err, kafkago.UnknownTopicOrPartition) && !errors.Is(err, kafkago.LeaderNotAvailable) {
		if err == nil {
			delete(q.missing, name)
		}
		return err
	}
	now := time.Now()
	one, before := q.missing[name]
	if !before {
		if !q.room(now) {
			return err
		}
		one.first = now
	}
	one.last = now
	q.missing[name] = one
	if now.Sub(one.first) < creationTime {
		return sink.NotAttempted(fmt.Errorf("wait for the topic to be made: %w", err))
	}
	return err
}

// room reports whether one more missing topic can be remembered. If there are many, room forgets those that nobody has asked for lately.
func (q *questions) room(now time.Time) bool {
	if len(q.missing) < mostMissing {
		return true
	}
	for name, one := range q.missing {
		if now.Sub(one.last) > missingFor {
			delete(q.missing, name)
		}
	}
	return len(q.missing) < mostMissing
}

// resolve returns what is known of a topic once that is newer than older, which is nil or what the caller knows already.
// Its errors have a class.
func (c *cluster) resolve(ctx context.Context, name string, older *topic) (*topic, error) {
	if t := c.topic(name); t != nil && t != older {
		return t, nil // Somebody else asked in the meantime.
	}
	if older == nil {
		if err := c.questions.answer(name); err != nil {
			return nil, err
		}
		select {
		case c.waiting <- struct{}{}:
			defer func() { <-c.waiting }()
		default:
			c.questions.leave(name)
			return nil, errAsked
		}
	}
	one := c.questions.join(name)
	select {
	case <-one.done:
	case c.asking <- struct{}{}:
		c.askOpen(ctx, name)
		<-c.asking
		<-one.done // By us, or by whoever had the token before.
	case <-ctx.Done():
		return nil, sink.NotAttempted(fmt.Errorf("ask for topic %s: %w", name, context.Cause(ctx)))
	}
	if class, _, _ := sink.Classify(one.err); one.err != nil && class == sink.ClassNotAttempted {
		pause(ctx, creationPause)
	}
	return one.found, one.err
}

// askOpen asks for a topic and for others that are wanted. The caller holds the token of asking.
func (c *cluster) askOpen(ctx context.Context, name string) {
	taken := c.questions.take(name)
	if len(taken) == 0 {
		return
	}
	names := make([]string, 0, len(taken))
	for name := range taken {
		names = append(names, name)
	}
	found, failed := c.ask(ctx, names)
	for name, one := range taken {
		c.questions.close(name, one, found[name], failed[name])
	}
}

// ask asks for topics and keeps what it learns. Each is found, or has an error.
func (c *cluster) ask(ctx context.Context, names []string) (found map[string]*topic, failed map[string]error) {
	found, failed = make(map[string]*topic, len(names)), make(map[string]error)
	r, err := c.metadata(ctx, &metadata.Request{TopicNames: names, AllowAutoTopicCreation: true})
	if err != nil {
		for _, name := range names {
			failed[name] = err
		}
		return found, failed
	}
	for _, name := range names {
		if found[name], err = topicOf(r, name, c.topic(name)); err != nil {
			failed[name] = err
		}
	}
	c.learn(r, found)
	return found, failed
}
