package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// errTimeout is the cause of a request's end that the configuration's timeout brought about.
var errTimeout = errors.New("timeout")

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// answer is what Slack said.
type answer struct {
	host   string
	status int
	text   string
	wait   time.Duration
	asked  bool // it said how long to wait
}

// call makes one request. Its errors have a class, and never name the URL, which may be secret.
func (s *Sink) call(ctx context.Context, u *url.URL, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errTimeout)
	defer cancel()
	var written atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { written.Store(true) }})
	req := (&http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"tailbox"}, "Content-Type": {"application/json; charset=utf-8"}},
		// There is no GetBody, so that the transport cannot send a request a second time.
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(traced)
	if s.cfg.Token != "" {
		req.Header["Authorization"] = []string{"Bearer " + s.cfg.Token}
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return answer{}, s.failed(ctx, u.Host, written.Load(), err)
	}
	defer resp.Body.Close() // The answer is there: nothing depends on how the connection goes on.
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode == http.StatusOK && s.cfg.WebhookURL == "" {
		// Only the body tells whether the message was taken.
		return answer{}, s.failed(ctx, u.Host, true, err)
	}
	a := answer{host: u.Host, status: resp.StatusCode, text: string(text)}
	a.wait, a.asked = sink.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return a, nil
}

// failed classifies a request without an answer.
func (s *Sink) failed(ctx context.Context, host string, written bool, err error) error {
	timeout := errors.Is(context.Cause(ctx), errTimeout)
	switch {
	case written && timeout:
		return sink.Unavailable(fmt.Errorf("post to %s: no answer within %v (possible duplicate: Slack may have taken it)", host, s.cfg.Timeout))
	case written:
		return sink.Unavailable(fmt.Errorf("post to %s: no answer (possible duplicate: Slack may have taken it): %w", host, err))
	case timeout:
		return sink.Unreachable(fmt.Errorf("post to %s: no connection within %v", host, s.cfg.Timeout))
	case ctx.Err() != nil:
		return sink.NotAttempted(fmt.Errorf("post to %s: %w", host, context.Cause(ctx)))
	}
	return sink.Unreachable(fmt.Errorf("post to %s: %w", host, err))
}

// byStatus classifies what HTTP itself says, whoever says it; nil if the body decides.
func (a answer) byStatus() error {
	err := fmt.Errorf("post to %s: answered %d %s", a.host, a.status, http.StatusText(a.status))
	if text := sink.OneLine(a.text); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	verdict, _ := judge(a.word())
	switch {
	case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable && a.asked:
		return sink.Throttled(err, max(a.wait, time.Second))
	case a.status == http.StatusRequestTimeout, a.status >= http.StatusBadGateway && a.status <= http.StatusGatewayTimeout:
		return sink.Unavailable(err)
	case a.status >= 500 && verdict == down:
		return a.as(verdict, err)
	case a.status >= 500:
		return sink.Rejected(err)
	case a.status >= 300 && a.status < 400:
		return sink.Misconfigured(fmt.Errorf("%w: redirects are not followed: check webhook_url or api_url", err))
	}
	return nil
}

// word is Slack's word for an error: all that a webhook says, and a member of what the Web API says.
func (a answer) word() string {
	if p, ok := parse(a.text); ok {
		return p.Error
	}
	return sink.OneLine(a.text)
}

// webhook is what the answer of an incoming webhook means: its status, and one word.
func (a answer) webhook() error {
	if a.status >= 200 && a.status < 300 {
		return nil
	}
	if err := a.byStatus(); err != nil {
		return err
	}
	word := sink.OneLine(a.text)
	err := fmt.Errorf("post to the webhook at %s: answered %d %s", a.host, a.status, word)
	if verdict, known := judge(word); known {
		return a.as(verdict, err)
	}
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusProxyAuthRequired:
		return sink.Misconfigured(fmt.Errorf("%w: check webhook_url", err))
	}
	return sink.Permanent(err)
}

// method is what the answer of a method of the Web API means.
func (a answer) method() (reply, error) {
	if err := a.byStatus(); err != nil {
		return reply{}, err
	}
	p, ok := parse(a.text)
	if !ok {
		return p, sink.Misconfigured(fmt.Errorf("post to %s: answered %d, and not as Slack does: %s: check api_url and the proxy",
			a.host, a.status, sink.OneLine(a.text)))
	}
	if p.OK {
		return p, nil
	}
	err := fmt.Errorf("post to %s: Slack answered %s", a.host, sink.OneLine(p.Error))
	if p.Needed != "" {
		err = fmt.Errorf("%w (needed: %s)", err, sink.OneLine(p.Needed))
	}
	if len(p.Metadata.Messages) > 0 {
		err = fmt.Errorf("%w: %s", err, sink.OneLine(strings.Join(p.Metadata.Messages, "; ")))
	}
	verdict, _ := judge(p.Error)
	return p, a.as(verdict, err)
}

// verdict is what one of Slack's words for an error means.
type verdict uint8

const (
	// failed: Slack cannot say why, or the word is not known.
	failed verdict = iota
	// poison: the message is at fault.
	poison
	// login: the token or webhook is at fault.
	login
	// place: the channel is at fault, or what the app may do there.
	place
	// busy: Slack asks to slow down.
	busy
	// down: Slack is not working, in its own words. HTTP has statuses for the same, and their class.
	down
)

// as gives an error the class of a verdict.
func (a answer) as(v verdict, err error) error {
	switch v {
	case poison:
		return sink.Permanent(err)
	case login:
		return sink.Misconfigured(fmt.Errorf("%w: check token or webhook_url, and the app's scopes (chat:write)", err))
	case place:
		return sink.Misconfigured(fmt.Errorf("%w: check channel (by default the message's topic), and invite the app to it", err))
	case busy:
		return sink.Throttled(err, max(a.wait, time.Second))
	case down:
		return sink.Unavailable(fmt.Errorf("%w (possible duplicate: Slack may have taken it)", err))
	}
	return sink.Rejected(err)
}

// judge knows Slack's words for errors.
func judge(word string) (v verdict, known bool) {
	switch word {
	case "invalid_blocks", "invalid_blocks_format", "invalid_attachments", "too_many_attachments", "msg_too_long", "msg_blocks_too_long", "no_text",
		"markdown_text_conflict", "cannot_reply_to_message", "metadata_too_large", "invalid_metadata_format", "invalid_metadata_schema",
		"as_user_not_supported", "invalid_payload", "missing_text_or_fallback_or_attachments",
		"invalid_arguments", "invalid_arg_name", "invalid_array_arg", "invalid_charset", "invalid_form_data", "invalid_post_type",
		"missing_post_type", "invalid_json", "json_not_object", "too_many_contact_cards", "attachment_payload_limit_exceeded":
		return poison, true
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "invalid_token", "missing_scope", "no_permission",
		"not_allowed_token_type", "org_login_required", "ekm_access_denied", "enterprise_is_restricted", "two_factor_setup_required",
		"access_denied", "accesslimited", "team_access_not_granted", "no_service", "no_team", "no_active_hooks", "action_prohibited",
		"method_deprecated", "deprecated_endpoint", "unknown_method",
		// The sink adds metadata to each message that has none: the token is at fault.
		"metadata_must_be_sent_from_app":
		return login, true
	case "channel_not_found", "not_in_channel", "is_archived", "channel_is_archived", "is_inactive", "user_not_found", "team_not_found",
		"messages_tab_disabled", "posting_to_general_channel_denied", "external_channel_migrating":
		return place, true
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return busy, true
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		return down, true
	case "rollup_error":
		return failed, true
	}
	if strings.HasPrefix(word, "restricted_action") {
		return place, true
	}
	return failed, false
}
