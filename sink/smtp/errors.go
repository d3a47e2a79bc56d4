package smtp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
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
		case aboutRate(answer):
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

// refused classifies what the server says to a step of sending a mail, which it did not accept.
func (ss *session) refused(step string, err error, whose blame) (usable bool, class error) {
	answer, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		// Until the end of DATA nothing is accepted, however the connection ended.
		return false, sink.Unreachable(fmt.Errorf("send to %s: %s: no answer, and the mail was not accepted: %w", ss.address, step, err))
	}
	err = fmt.Errorf("send to %s: %s: %w", ss.address, step, reply(answer))
	sender := whose == refusedSender
	switch code := answer.Code; {
	case aboutRate(answer):
		return code != 421, sink.Throttled(fmt.Errorf("%w: the server takes mails more slowly", err), 0)
	case code == 421:
		// The server closes the connection. It may do so for one mail alone, which the relay finds out.
		return false, sink.Unavailable(err)
	case code == 530 || code == 534 || code == 535 || code == 538:
		return true, sink.Misconfigured(fmt.Errorf("%w: check auth and security", err))
	case aboutSender(answer), sender && aboutRelaying(answer):
		return true, sink.Misconfigured(fmt.Errorf("%w: the server does not take mails from this sender: check auth, from and envelope_from", err))
	case whose == refusedFixed && (code >= 500 && !aboutLimit(answer) || aboutRelaying(answer)):
		// It meets every mail, and none of them is to blame.
		return true, sink.Misconfigured(fmt.Errorf("%w: the server does not take mails to this recipient, whom every mail has: correct it", err))
	case aboutRelaying(answer):
		// It meets all mails where the relay lost its right, and one where its recipient is in a domain that the server does not relay to.
		// To retry is right for both: the others go on, and no backlog becomes dead letters before somebody can look.
		return true, sink.Rejected(fmt.Errorf("%w: the server does not relay to this recipient for us: check auth, and whom the server relays for", err))
	case !sender && aboutLimit(answer):
		return true, sink.Throttled(fmt.Errorf("%w: the sender's limit is used up", err), limitPause)
	case code == 552: // too large, or a full mailbox
		return true, sink.Permanent(err)
	case code >= 500 && sender:
		return true, sink.Misconfigured(fmt.Errorf("%w: check from and envelope_from, and whether the relay must authenticate", err))
	case code >= 500:
		return true, sink.Permanent(err)
	}
	return true, sink.Rejected(err)
}

// aboutSender reports whether a refusal is about who sends, so that it would meet any mail.
func aboutSender(answer *textproto.Error) bool {
	if answer.Code < 500 {
		return false
	}
	switch enhanced(answer) {
	case "5.7.8", // what the relay logged in with does not hold
		"5.7.60", "5.2.252": // it may not send as this sender
		return true
	}
	return false
}

// aboutRelaying reports whether the server does not relay to the recipient for us.
func aboutRelaying(answer *textproto.Error) bool {
	return containsAny(strings.ToLower(answer.Msg), "relay access denied", "relaying denied", "unable to relay", "not permitted to relay")
}

// aboutLimit reports whether a refusal says that the sender has sent enough for now. A mailbox that is full has a quota too:
// that is its recipient's affair, and no reason to hold up the others.
func aboutLimit(answer *textproto.Error) bool {
	text, code := strings.ToLower(answer.Msg), enhanced(answer)
	switch {
	case answer.Code < 500:
		return false
	case code == "5.4.5":
		return true
	case strings.HasPrefix(code, "5.2."), strings.Contains(text, "mailbox"):
		return false
	case containsAny(text, "sending limit", "daily limit"):
		return true
	}
	return strings.Contains(text, "quota") && containsAny(text, "sending", "sender quota", "sender's quota", "daily", "hourly")
}

// aboutRate reports whether a server puts a mail off because the sender sends too fast. What it says of one recipient, such as a mailbox that gets
// mails too fast, does not count; nor does what an address says.
func aboutRate(answer *textproto.Error) bool {
	if answer.Code >= 500 || strings.HasPrefix(enhanced(answer), "4.2.") {
		return false
	}
	text := strings.ToLower(addresses.ReplaceAllString(answer.Msg, ""))
	return containsAny(text, "throttling failure", "sending rate", "rate limit", "too much mail from", "too many messages from", "too many connections from", "4.7.500 server busy")
}

// addresses are parts of an answer that hold what a mail's writer chose.
var addresses = regexp.MustCompile(`<[^>]*>|"[^"]*"|\S*@\S*`)

// enhanced is the code of RFC 3463 that a refusal's text begins with, if any.
func enhanced(answer *textproto.Error) string {
	code, _, _ := strings.Cut(strings.TrimSpace(answer.Msg), " ")
	if strings.Trim(code, "0123456789.") != "" {
		return ""
	}
	return code
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
