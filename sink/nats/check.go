package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/sink"
)

// Check implements sink.Checker: a server can be reached and lets the relay in, JetStream is on, the configured stream
// exists, and a stream, or the configured one, takes each of the configured subjects. It makes no streams.
func (s *Sink) Check(ctx context.Context) []error {
	return sink.AppendProblem(s.check(ctx), s.cfg.plaintext())
}

func (s *Sink) check(ctx context.Context) []error {
	c, err := s.connection(ctx)
	if err != nil {
		if class, _, _ := sink.Classify(err); class != sink.ClassMisconfigured {
			err = fmt.Errorf("%w: check servers, the network, and whether the server wants tls", err)
		}
		return []error{err}
	}
	if s.cfg.Stream != "" {
		return s.checkStream(ctx, c)
	}
	if len(s.cfg.Subjects) == 0 {
		return s.checkAccount(ctx, c)
	}
	var problems []error
	for _, subject := range s.cfg.Subjects {
		_, denied, err := c.streamOf(ctx, subject)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = fmt.Errorf("subject %s: no stream takes it: nats stream add NAME --subjects %q", subject, subject)
		}
		if err != nil {
			problems = append(problems, err)
		}
		if denied {
			break
		}
	}
	return problems
}

// checkAccount asks whether JetStream is on. A user that may only publish is fine.
func (s *Sink) checkAccount(ctx context.Context, c *conn) []error {
	denied, err := c.ask(ctx, "$JS.API.INFO", "ask for JetStream", func(ctx context.Context) error {
		_, err := c.js.AccountInfo(ctx)
		return err
	})
	if err == nil || denied {
		return nil
	}
	return []error{err}
}

func (s *Sink) checkStream(ctx context.Context, c *conn) []error {
	var stream jetstream.Stream
	_, err := c.ask(ctx, "$JS.API.STREAM.INFO."+s.cfg.Stream, "ask for stream "+s.cfg.Stream, func(ctx context.Context) (err error) {
		stream, err = c.js.Stream(ctx, s.cfg.Stream)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = fmt.Errorf("stream %s does not exist: nats stream add %s --subjects …", s.cfg.Stream, s.cfg.Stream)
	}
	if err != nil {
		return []error{err}
	}
	var problems []error
	cfg := stream.CachedInfo().Config
	for _, subject := range s.cfg.Subjects {
		taken := false
		for _, filter := range cfg.Subjects {
			taken = taken || covers(filter, subject)
		}
		if !taken {
			problems = append(problems, fmt.Errorf("subject %s: stream %s takes only %s: nats stream edit %s --subjects …", subject,
				s.cfg.Stream, strings.Join(cfg.Subjects, ", "), s.cfg.Stream))
		}
	}
	if cfg.NoAck {
		problems = append(problems, fmt.Errorf("stream %s acknowledges nothing (no_ack), so that no message would count as delivered: nats stream edit %s --ack",
			s.cfg.Stream, s.cfg.Stream))
	}
	if cfg.Sealed {
		problems = append(problems, fmt.Errorf("stream %s is sealed, and takes nothing any more", s.cfg.Stream))
	}
	return problems
}

// ask asks JetStream by one of its own subjects. A server that does not allow it does not answer either.
func (c *conn) ask(ctx context.Context, subject, what string, question func(context.Context) error) (denied bool, err error) {
	c.expect(subject)
	defer c.forget(subject)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refusal error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			news, denial := c.denial(subject)
			if refusal = denial; denial != nil {
				cancel()
				return
			}
			select {
			case <-news:
			case <-ctx.Done():
				return
			}
		}
	}()
	err = question(ctx)
	cancel()
	<-watched
	switch {
	case err == nil:
		return false, nil
	case refusal != nil:
		return true, fmt.Errorf("%s: %w", what, refusal)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return false, fmt.Errorf("%s: %w: switch JetStream on (nats-server -js, or jetstream {} in its configuration)", what, err)
	}
	return false, fmt.Errorf("%s: %w", what, err)
}

// covers reports whether a stream's subject, which may have wildcards, takes subject.
func covers(filter, subject string) bool {
	for filter != "" {
		f, frest, fmore := strings.Cut(filter, ".")
		t, trest, tmore := strings.Cut(subject, ".")
		switch {
		case f == ">":
			return subject != ""
		case subject == "" || f != "*" && f != t || fmore != tmore:
			return false
		}
		filter, subject = frest, trest
	}
	return subject == ""
}
