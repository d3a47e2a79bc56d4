package nats

import (
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// maxSubject is how long a subject may be: a server closes the connection over a line of more than 4,096 bytes, which
// holds the subject of the answer and two lengths as well.
const maxSubject = 3800

// validSubject says what is wrong with a subject as one to publish to.
func validSubject(subject string) error {
	switch {
	case subject == "":
		return errors.New("it is empty")
	case len(subject) > maxSubject:
		return fmt.Errorf("it has %d bytes, more than %d", len(subject), maxSubject)
	case strings.HasPrefix(subject, "$"):
		return errors.New("subjects that begin with $ are the server's own")
	}
	for token := range strings.SplitSeq(subject, ".") {
		switch token {
		case "":
			return errors.New("it has an empty part between dots")
		case "*", ">":
			return errors.New("it has a wildcard")
		}
		for i := range len(token) {
			if c := token[i]; c <= ' ' || c == 0x7f {
				return errors.New("it has a space or a control character")
			}
		}
	}
	return nil
}

// subjectRule implements sink.TopicRule.
type subjectRule struct {
	inbox string // prefix of the subjects on which the relay gets answers
}

// CheckTopic refuses what nothing can be published to, and subjects on which somebody waits for an answer: a message there would pass for one.
func (r subjectRule) CheckTopic(topic string) error {
	if err := validSubject(topic); err != nil {
		return err
	}
	for _, prefix := range []string{natsgo.InboxPrefix, r.inbox + ".", "_R_.", "_GR_."} {
		if prefix != "." && strings.HasPrefix(topic, prefix) {
			return fmt.Errorf("subjects that begin with %s are for answers", prefix)
		}
	}
	return nil
}

// Headers by which a message tells the server what to do with it.
const (
	serverHeaders = "nats-"
	headerStatus  = "Status"
	// headerKey carries the message's key, for which NATS has no place.
	headerKey = "tailbox-key"
)

// message makes what goes over the wire for d. Its errors have a class.
func (s *Sink) message(d *sink.Delivery) (*natsgo.Msg, error) {
	if err := (subjectRule{s.cfg.InboxPrefix}).CheckTopic(d.Topic); err != nil {
		return nil, sink.InvalidTopic(d.Topic, err)
	}
	h := make(natsgo.Header, len(d.Headers)+len(d.Message.Headers)+8)
	hs := sink.AppendHeaders(nil, d, !s.cfg.OmitMetadata)
	others := len(hs)
	if !s.cfg.OmitMetadata {
		others -= sink.MetadataHeaders
	}
	for i, one := range hs {
		if err := s.addHeader(h, one, i == 0 || i >= others); err != nil {
			return nil, err
		}
	}
	if d.Key != nil && !s.cfg.OmitMetadata {
		h[headerKey] = []string{sink.HeaderText(string(d.Key))}
	}
	if s.cfg.Stream != "" {
		h[jetstream.ExpectedStreamHeader] = []string{s.cfg.Stream}
	}
	switch s.cfg.MsgID {
	case MsgIDAuto:
		h[jetstream.MsgIDHeader] = []string{sink.HeaderText(sink.UniqueID(d))}
	case MsgIDPlain:
		h[jetstream.MsgIDHeader] = []string{sink.HeaderText(d.Message.ID)}
	case MsgIDQualified:
		h[jetstream.MsgIDHeader] = []string{sink.HeaderText(sink.QualifiedID(d))}
	}
	return &natsgo.Msg{Subject: d.Topic, Header: h, Data: d.Value}, nil
}

// addHeader adds a header. The relay's own are made fit; one of the application's that NATS cannot carry
// makes the message permanent, and one that would tell the server what to do is left out.
func (s *Sink) addHeader(h natsgo.Header, one outbox.Header, own bool) error {
	switch {
	case own:
		h[one.Name] = []string{sink.HeaderText(string(one.Value))}
		return nil
	case reserved(one.Name), s.cfg.OmitMetadata && strings.EqualFold(one.Name, sink.HeaderReplaces):
		return nil
	case !sink.ValidHeaderName(one.Name) || !sink.ValidHeaderValue(one.Value):
		return sink.Permanent(fmt.Errorf("header %q: NATS cannot carry it: its name may have letters, digits and - _ ., "+
			"its value no control characters", one.Name))
	}
	h[one.Name] = append(h[one.Name], string(one.Value))
	return nil
}

// reserved reports whether a header is the relay's own or the server's: one of the application's must not pass for a
// position, nor purge a subject.
func reserved(name string) bool {
	return sink.ReservedHeader(name) && !strings.EqualFold(name, sink.HeaderReplaces) || strings.EqualFold(name, headerStatus) ||
		strings.HasPrefix(strings.ToLower(name), serverHeaders)
}
