package nats_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestInbox has a user who may publish, but not hear the answers, until the operator allows it. Nothing is stored that
// nobody would know of, since each further try would store it again.
func TestInbox(t *testing.T) {
	t.Parallel()
	allow := func(inbox string) servers.NATSOptions {
		return servers.NATSOptions{Lines: []string{`authorization { users = [
			{ user: reader, password: secret },
			{ user: relay, password: secret, permissions: { subscribe: { ` + inbox + `: "_INBOX.>" } } }
		] }
		no_auth_user: reader`}}
	}
	server := servers.NATS(t, allow("deny"))
	at := newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{server.URL()}, Username: "relay", Password: "secret", MsgID: nats.MsgIDNone})
	for range 2 {
		wantClass(t, one(t, s, delivery(at.name, "unheard")), sink.ClassMisconfigured, "inbox_prefix")
	}
	if problems := s.Check(t.Context()); len(problems) != 1 || !strings.Contains(problems[0].Error(), "inbox_prefix") {
		t.Errorf("check: %v, want the inbox", problems)
	}
	if n := len(at.arrived(t)); n != 0 {
		t.Errorf("%d messages arrived whose answer nobody could hear", n)
	}
	if err := server.Reload(allow("allow")); err != nil {
		t.Fatal(err)
	}
	sinktest.Eventually(t, "the inbox to be allowed", func() bool { return one(t, s, delivery(at.name, "first")) == nil })

	// The same while a connection is in use.
	if err := server.Reload(allow("deny")); err != nil {
		t.Fatal(err)
	}
	sinktest.Eventually(t, "the inbox to be denied", func() bool {
		err := one(t, s, delivery(at.name, "more"))
		class, _, _ := sink.Classify(err)
		return err != nil && class == sink.ClassMisconfigured && strings.Contains(err.Error(), "inbox_prefix")
	})
	for range 2 {
		wantClass(t, one(t, s, delivery(at.name, "unheard")), sink.ClassMisconfigured, "inbox_prefix")
	}
	if err := server.Reload(allow("allow")); err != nil {
		t.Fatal(err)
	}
	sinktest.Eventually(t, "the inbox to be allowed again", func() bool { return one(t, s, delivery(at.name, "last")) == nil })
	for _, a := range at.arrived(t) {
		if a.ID == "unheard" {
			t.Error("a message arrived whose answer nobody could hear")
		}
	}
}
