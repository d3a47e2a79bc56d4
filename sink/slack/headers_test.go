package slack_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink/slack"
)

// TestEndlessAnswerHeaders has a server that answers with more headers than anyone should keep in memory.
func TestEndlessAnswerHeaders(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Uv4"] = make([]string, 1<<20/7)
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(server.Close)
	s := newSink(t, slack.Config{WebhookURL: server.URL + "/services/x"})
	err := one(t, s, delivery(`{"text":"hello"}`))
	if err == nil || !strings.Contains(err.Error(), "headers exceeded") {
		t.Fatalf("answer %v, want an error about the headers", err)
	}
}
