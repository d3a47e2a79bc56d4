package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// lookupWait bounds the questions of a call. A cluster that looks for a leader leaves them unanswered.
const lookupWait = 2 * time.Second

// lookup asks JetStream why no stream answered for some messages, and fills in their answers. While the replicas of a stream elect a leader,
// none of them subscribes to its subjects, as if there were no stream; but JetStream knows of it. lookup returns the messages that may be
// accepted in a moment. A subject that no stream takes is not among them: many of those would keep other subjects waiting.
func (s *Sink) lookup(ctx context.Context, c *conn, silent []publication, answers []error) (again []publication) {
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	type answer struct {
		err  error
		soon bool
	}
	known := make(map[string]answer)
	for _, p := range silent {
		a, asked := known[p.d.Topic]
		if !asked {
			a.soon, a.err = s.silence(ctx, c, p.d.Topic)
			known[p.d.Topic] = a
		}
		if a.err != nil {
			answers[p.at] = a.err
		}
		if a.soon {
			again = append(again, p)
		}
	}
	return again
}

// silence returns the error of a subject for which no stream answered, or nil if the error of the publication says it already. Soon reports
// that a stream may answer in a moment.
func (s *Sink) silence(ctx context.Context, c *conn, subject string) (soon bool, failure error) {
	name, denied, err := c.streamOf(ctx, subject)
	subject = outbox.Shorten(subject)
	switch {
	case err == nil && s.cfg.Stream != "" && name != s.cfg.Stream:
		return false, sink.Misconfigured(fmt.Errorf("publish to %s: stream %s takes this subject, and not %s: check stream", subject, name, s.cfg.Stream))
	case err == nil:
		return true, sink.Unavailable(fmt.Errorf("publish to %s: stream %s, which takes this subject, has no leader for the moment", subject, name))
	case denied:
		return true, sink.Misconfigured(fmt.Errorf("publish to %s: no stream takes this subject, or it has no leader for the moment: nats stream add NAME --subjects %q, "+
			"or allow the relay's user to publish to %s, which tells them apart", subject, subject, namesSubject))
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, natsgo.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return errors.Is(err, natsgo.ErrNoResponders), nil
	}
	return true, sink.Unavailable(fmt.Errorf("publish to %s: no stream answers, and the cluster does not say whether there is one: %w", subject, err))
}

// namesSubject is where JetStream tells which streams there are.
const namesSubject = "$JS.API.STREAM.NAMES"

// streamOf asks JetStream which stream takes a subject. The cluster's leader answers that, and needs no stream for it.
func (c *conn) streamOf(ctx context.Context, subject string) (name string, denied bool, err error) {
	denied, err = c.ask(ctx, namesSubject, "ask for the stream of subject "+outbox.Shorten(subject), func(ctx context.Context) (err error) {
		name, err = c.js.StreamNameBySubject(ctx, subject)
		return err
	})
	return name, denied, err
}
