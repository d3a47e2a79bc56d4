package nats

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// Subjects that do not look as they are when the server quotes them, or when they are written in lower case.
var oddSubjects = []string{`denied."a\b`, "denied.Order", "denied.\u200b", "denied.\x80\xff", "denied.\u212a\u0130\u2126", `denied.\u00e4"`, "denied.it's'"}

// TestDeniedSubject reads the server's words, which quote the subject as Go does.
func TestDeniedSubject(t *testing.T) {
	t.Parallel()
	for _, subject := range append(oddSubjects, "denied.a", "") {
		for words, publishes := range map[string]bool{
			"Permissions Violation for Publish to %q": true, "permissions violation for publish to %q": true,
			"Permissions Violation for Subscription to %q": false, `Permissions Violation for Subscription to %q using queue "q"`: false,
		} {
			text := fmt.Errorf("%w: "+words, natsgo.ErrPermissionViolation, subject).Error()
			if got, publish := deniedSubject(text); got != subject || publish != publishes {
				t.Errorf("%s: subject %q, publish %v", text, got, publish)
			}
		}
	}
	for text, want := range map[string]string{"something else": "", `Publish to "a`: "a", `Publish to "\q"`: `\q`} {
		if got, _ := deniedSubject(text); got != want {
			t.Errorf("%s: subject %q, want %q", text, got, want)
		}
	}
}

// TestDenialsAreForgotten: messages choose their subjects. A denial is kept for those that wait for it, and for nobody else.
func TestDenialsAreForgotten(t *testing.T) {
	t.Parallel()
	c := &conn{denials: newDenials()}
	deny := func(subject string) {
		c.told(nil, nil, fmt.Errorf("%w: Permissions Violation for Publish to %q", natsgo.ErrPermissionViolation, subject))
	}
	for i := range 1000 {
		deny(fmt.Sprint("late.", i))
	}
	if len(c.underWay) != 0 {
		t.Errorf("%d denials are kept that nobody waits for", len(c.underWay))
	}
	c.expect("a", "b", "a")
	news, _ := c.denial("a")
	deny("a")
	<-news
	for range 2 {
		if _, err := c.denial("a"); !errors.Is(err, natsgo.ErrPermissionViolation) {
			t.Errorf("a denial that is waited for: %v", err)
		}
		c.forget("a")
	}
	if _, err := c.denial("a"); err != nil {
		t.Errorf("after the last answer: %v", err)
	}
	if _, err := c.denial("b"); err != nil {
		t.Errorf("another subject: %v", err)
	}
	if c.forget("b"); len(c.underWay) != 0 {
		t.Errorf("%d subjects are kept", len(c.underWay))
	}
}

// TestManyDeniedSubjects has a user who may not publish to what the messages choose: each is answered at once, whatever its name, and nothing of it is
// kept.
func TestManyDeniedSubjects(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{Lines: []string{`authorization { users = [
		{ user: reader, password: secret },
		{ user: relay, password: secret, permissions: { publish: "allowed.>", subscribe: "_INBOX.>" } }
	] }
	no_auth_user: reader`}})
	s, err := New(Config{Servers: []string{server.URL()}, Username: "relay", Password: "secret", Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	subjects := oddSubjects
	for i := range 300 {
		subjects = append(subjects, fmt.Sprintf("denied.%d.%s", i, strings.Repeat("x", 3000)))
	}
	var ds []*sink.Delivery
	for i, subject := range subjects {
		ds = append(ds, &sink.Delivery{Message: &outbox.Message{ID: fmt.Sprint(i), Group: fmt.Sprint(i)}, Topic: subject, Value: []byte("1"), Attempt: 1})
	}
	start := time.Now()
	for i, err := range sinktest.Call(t.Context(), t, s, ds) {
		if class, _, _ := sink.Classify(err); err == nil || class != sink.ClassMisconfigured || !strings.Contains(err.Error(), "allow the relay's user to publish there") {
			t.Errorf("%.40q: %v: %.400v, want misconfigured", subjects[i], class, err)
		}
	}
	if took := time.Since(start); took >= 20*time.Second {
		t.Errorf("the answers took %v", took)
	}
	if n := len(s.current.Load().underWay); n != 0 {
		t.Errorf("%d denials are kept", n)
	}
}
