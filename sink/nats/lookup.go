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

// lookup finds out why nobody took some messages, and makes that their answers. A stream whose replicas look for a leader is
// subscribed to nothing meanwhile, as if there were none; but JetStream knows of it.
func (s *Sink) lookup(ctx context.Context, c *conn, silent []publication, answers []error) {
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	known := make(map[string]error)
	for _, p := range silent {
		subject := p.msg.Subject
		err, asked := known[subject]
		if !asked {
			err = s.silence(ctx, c, subject)
			known[subject] = err
		}
		if err != nil {
			answers[p.at] = err
		}
	}
}

// silence is the answer in place of that of a subject that nobody takes; nil = it is what it seems to be.
func (s *Sink) silence(ctx context.Context, c *conn, subject string) error {
	name, denied, err := c.streamOf(ctx, subject)
	subject = outbox.Shorten(subject)
	switch {
	case err == nil && s.cfg.Stream != "" && name != s.cfg.Stream:
		return sink.Misconfigured(fmt.Errorf("publish to %s: stream %s takes this subject, and not %s: check stream", subject, name, s.cfg.Stream))
	case err == nil:
		return sink.Unavailable(fmt.Errorf("publish to %s: stream %s, which takes this subject, has no leader for the moment", subject, name))
	case denied:
		return sink.Misconfigured(fmt.Errorf("publish to %s: no stream takes this subject, or it has no leader for the moment: nats stream add NAME --subjects %q, "+
			"or allow the relay's user to publish to %s, which tells them apart", subject, subject, namesSubject))
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, natsgo.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil
	}
	return sink.Unavailable(fmt.Errorf("publish to %s: no stream answers, and the cluster does not say whether there is one: %w", subject, err))
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
