package nats

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// fullPause is how long the sink waits while a stream takes no more: its consumers have to catch up, which nobody tells.
const fullPause = time.Second

// Codes of JetStream's refusals that the library has no names for.
const (
	codeAccountResources  jetstream.ErrorCode = 10002
	codeClusterNotAvail   jetstream.ErrorCode = 10008
	codeClusterNotLeader  jetstream.ErrorCode = 10009
	codeResources         jetstream.ErrorCode = 10023
	codeMemoryResources   jetstream.ErrorCode = 10028
	codeStorageResources  jetstream.ErrorCode = 10047
	codeStreamMismatch    jetstream.ErrorCode = 10060
	codeStoreFailed       jetstream.ErrorCode = 10077
	codeHeaderTooLarge    jetstream.ErrorCode = 10097
	codeStreamSealed      jetstream.ErrorCode = 10109
	statusTooManyRequests                     = 429
)

// unconnected classifies why no server could be connected to.
func (s *Sink) unconnected(ctx context.Context, servers []string, err error) error {
	where := strings.Join(servers, ", ")
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case ctx.Err() != nil:
		return sink.NotAttempted(fmt.Errorf("connect to %s: %w", where, context.Cause(ctx)))
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked),
		errors.Is(err, natsgo.ErrAccountAuthExpired), errors.Is(err, natsgo.ErrNkeysNotSupported):
		return sink.Misconfigured(fmt.Errorf("log in to %s: %w: check username and password, token, nkey or creds", where, err))
	case errors.Is(err, natsgo.ErrSecureConnWanted), errors.Is(err, natsgo.ErrSecureConnRequired),
		errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return sink.Misconfigured(fmt.Errorf("connect to %s: %w: check tls", where, err))
	}
	return sink.Unreachable(fmt.Errorf("connect to %s: %w", where, err))
}

// refused classifies what the server, or the library before it, says about one message.
func refused(subject string, err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return refusedByServer(subject, api)
	}
	subject = outbox.Shorten(subject)
	err = fmt.Errorf("publish to %s: %w", subject, err)
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload):
		return sink.Permanent(fmt.Errorf("%w: the message with its headers is larger than the server's max_payload", err))
	case errors.Is(err, natsgo.ErrBadSubject), errors.Is(err, natsgo.ErrBadHeaderMsg):
		return sink.Permanent(err)
	case errors.Is(err, natsgo.ErrHeadersNotSupported):
		return sink.Misconfigured(fmt.Errorf("%w: use nats-server 2.2 or later", err))
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return sink.Misconfigured(fmt.Errorf("%w: no stream takes this subject, or JetStream is off: "+
			"nats stream add NAME --subjects %q", err, subject))
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout), errors.Is(err, natsgo.ErrDisconnected):
		return unanswered(subject, err)
	case errors.Is(err, jetstream.ErrInvalidJSAck):
		return sink.Misconfigured(fmt.Errorf("%w: something that is no stream answers on this subject", err))
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return sink.NotAttempted(err)
	}
	// Nothing of it can have been taken for a message: its end was not written.
	return sink.Unreachable(err)
}

// unanswered is the class of a message that was written and not answered.
func unanswered(subject string, err error) error {
	return sink.Unavailable(fmt.Errorf("publish to %s: no answer (possible duplicate: the stream may have it): %w", outbox.Shorten(subject), err))
}

func refusedByServer(subject string, api *jetstream.APIError) error {
	err := fmt.Errorf("publish to %s: %s (%d)", outbox.Shorten(subject), sink.OneLine(api.Description), api.ErrorCode)
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return sink.Permanent(fmt.Errorf("%w: raise the stream's max_msg_size", err))
	case codeHeaderTooLarge:
		// The limit is the server's own, and no setting.
		return sink.Permanent(fmt.Errorf("%w: group and key go as headers beside the row's own headers: shorten them", err))
	case codeStreamMismatch:
		return sink.Misconfigured(fmt.Errorf("%w: another stream than the sink's takes this subject: check stream", err))
	case codeStreamSealed:
		return sink.Misconfigured(fmt.Errorf("%w: the stream takes nothing any more", err))
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return sink.Misconfigured(fmt.Errorf("%w: switch JetStream on", err))
	case codeClusterNotAvail, codeClusterNotLeader:
		return sink.Unavailable(err)
	case codeAccountResources, codeResources, codeMemoryResources, codeStorageResources:
		return sink.Throttled(err, fullPause)
	case codeStoreFailed:
		// One subject that is full says nothing about the others.
		if strings.Contains(api.Description, "maximum") && !strings.Contains(api.Description, "per subject") {
			return sink.Throttled(fmt.Errorf("%w: the stream is full, and discards new messages", err), fullPause)
		}
		return sink.Rejected(err)
	}
	if api.Code == statusTooManyRequests {
		return sink.Throttled(err, fullPause)
	}
	return sink.Rejected(err)
}
