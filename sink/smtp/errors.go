package smtp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// errTimeout is the cause of an end that the configuration's timeout brought about.
var errTimeout = errors.New("timeout")

// limitPause is how long the sink waits when the sender has used up what the server lets it send. That lasts for hours, whose
// end nobody tells.
const limitPause = 5 * time.Minute

// reply is a server's refusal, with its text as one line.
func reply(err *textproto.Error) error {
	return fmt.Errorf("answered %d %s", err.Code, sink.OneLine(err.Msg))
}

// unconnected classifies a failure before the first mail of a connection.
func (s *Sink) unconnected(ctx context.Context, step string, err error) error {
	at := func(err error) error { return fmt.Errorf("%s at %s: %w", step, s.cfg.Address, err) }
	if class, _, _ := sink.Classify(err); class == sink.ClassMisconfigured {
		return sink.Misconfigured(at(err))
	}
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		err = reply(answer)
		switch {
		case answer.Code >= 500 && step == "AUTH":
			return sink.Misconfigured(fmt.Errorf("%w: check auth.username and auth.password", at(err)))
		case answer.Code >= 500:
			return sink.Misconfigured(fmt.Errorf("%w: the server does not serve this relay: check address, security and helo", at(err)))
		case newRefusal(answer, nil).aboutRate():
			return sink.Throttled(fmt.Errorf("%w: the server takes mails more slowly", at(err)), 0)
		case answer.Code >= 400:
			return sink.Unavailable(at(err))
		}
		return sink.Unreachable(at(err))
	}
	var handshake handshakeError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	timeout := errors.Is(context.Cause(ctx), errTimeout)
	switch {
	case timeout:
		return sink.Unreachable(at(fmt.Errorf("not done within %v", s.cfg.ConnectTimeout)))
	case ctx.Err() != nil:
		return sink.NotAttempted(at(context.Cause(ctx)))
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return sink.Misconfigured(fmt.Errorf("%w: check tls.ca and tls.server_name", at(err)))
	case errors.As(err, &handshake):
		return sink.Unreachable(fmt.Errorf("%w: check security and tls", at(err)))
	}
	return sink.Unreachable(at(err))
}

// Whose fault a refusal with 5xx is.
const (
	refusedMail blame = iota
	refusedSender
	// refusedFixed: a recipient that the configuration names for every mail.
	refusedFixed
)

type blame uint8

// refused classifies what the server says to a step of sending a mail to these recipients, which it did not accept.
func (ss *session) refused(step string, err error, whose blame, to []recipient) (usable bool, class error) {
	answer, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		// Until the end of DATA nothing is accepted, however the connection ended.
		return false, sink.Unreachable(fmt.Errorf("send to %s: %s: no answer, and the mail was not accepted: %w", ss.address, step, err))
	}
	err = fmt.Errorf("send to %s: %s: %w", ss.address, step, reply(answer))
	r := newRefusal(answer, to)
	switch {
	case r.aboutRate():
		return r.code != 421, sink.Throttled(fmt.Errorf("%w: the server takes mails more slowly", err), 0)
	case r.code == 421:
		// The server closes the connection. It may do so for one mail alone, which the relay finds out.
		return false, sink.Unavailable(err)
	case r.code == 530 || r.code == 534 || r.code == 535 || r.code == 538:
		return true, sink.Misconfigured(fmt.Errorf("%w: check auth and security", err))
	case r.code < 500 && !r.aboutRelaying():
		return true, r.putOff(step, whose, err)
	}
	return true, r.rejected(whose, err)
}

// putOff classifies an answer with 4xx. If it is not about the mail, it meets every mail, and none of them is to blame. At the end of the mail the
// content may be the cause, even if the server blames itself.
func (r refusal) putOff(step string, whose blame, err error) error {
	switch {
	case whose == refusedSender, r.aboutSystem() && step != stepEnd, r.aboutSender() && !r.aboutGreylist():
		return sink.Unavailable(err)
	}
	return sink.Rejected(err)
}

// rejected classifies an answer with 5xx, or about relaying.
func (r refusal) rejected(whose blame, err error) error {
	sender := whose == refusedSender
	switch {
	case r.aboutOwnMailbox():
		return sink.Misconfigured(fmt.Errorf("%w: the sender's own mailbox at the server is full: make room in it", err))
	case r.code >= 500 && r.aboutSender(), sender && r.aboutRelaying():
		return sink.Misconfigured(fmt.Errorf("%w: the server does not take mails from this sender: check auth, from, envelope_from and helo, "+
			"and the account and its domain at the server", err))
	case whose == refusedFixed && (r.code >= 500 && !r.aboutLimit() || r.aboutRelaying()):
		// It meets every mail, and none of them is to blame.
		return sink.Misconfigured(fmt.Errorf("%w: the server does not take mails to this recipient, whom every mail has: correct it", err))
	case r.aboutRelaying():
		// It meets all mails where the relay lost its right, and one where its recipient is in a domain that the server does not relay to.
		// To retry is right for both: the others go on, and no backlog becomes dead letters before somebody can look.
		return sink.Rejected(fmt.Errorf("%w: the server does not relay to this recipient for us: check auth, and whom the server relays for", err))
	case !sender && r.aboutLimit():
		return sink.Throttled(fmt.Errorf("%w: the sender's limit is used up", err), limitPause)
	case r.code == 552: // too large, or a full mailbox
		return sink.Permanent(err)
	case sender:
		return sink.Misconfigured(fmt.Errorf("%w: check from and envelope_from, and whether the relay must authenticate", err))
	}
	return sink.Permanent(err)
}
