package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/test/servers"
)

const sinksConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{shape: tailbox}]}
routes:
  - {match: {type: mail}, to: [mail]}
  - {match: {type: chat}, to: [chat]}
  - {to: [bus]}
sinks:
  mail: {kind: smtp, address: "${SMTP}", from: shop@example.org, to: "header:recipient", auth: {username: relay, password_file: smtp.secret}}
  chat: {kind: slack, token_file: slack.secret, api_url: "${SLACK}"}
  bus: {kind: nats, servers: ["${NATS}"], stream: "${STREAM}", subjects: ["${STREAM}.a"]}
admin: {listen: "127.0.0.1:0"}
`

// chat answers as Slack does, to one token.
type chat struct {
	mu    sync.Mutex
	texts []string
}

func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct{ Channel, Text string }
	if r.Header.Get("Authorization") != "Bearer xoxb-1" || json.NewDecoder(r.Body).Decode(&message) != nil {
		_, _ = io.WriteString(w, `{"ok":false,"error":"invalid_auth"}`) // the client sees it
		return
	}
	if strings.HasSuffix(r.URL.Path, "/chat.postMessage") {
		c.mu.Lock()
		c.texts = append(c.texts, message.Channel+": "+message.Text)
		c.mu.Unlock()
	}
	_, _ = io.WriteString(w, `{"ok":true,"channel":"C1","ts":"1.2"}`) // the client sees it
}

func (c *chat) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.texts, "\n")
}

// TestMailChatAndBus checks, and then delivers to, the sinks smtp, slack and nats.
func TestMailChatAndBus(t *testing.T) {
	t.Parallel()
	r := newRig(t, sinksConfig)
	mails := servers.StartMail(t, servers.MailOptions{Mechanisms: []string{"PLAIN"}})
	room := new(chat)
	slack := httptest.NewServer(room)
	t.Cleanup(slack.Close)
	bus := servers.SharedNATS(t)
	stream := r.env["SLOT"]
	r.env["SMTP"], r.env["SLACK"], r.env["NATS"], r.env["STREAM"] = mails.Addr(), slack.URL, bus.URL(), stream
	r.beside("smtp.secret", servers.MailPassword+"\n")
	r.beside("slack.secret", "xoxb-wrong")
	r.must("init")
	got := r.command("check")
	for _, want := range []string{"sink chat: ", "invalid_auth", "sink bus: ", "stream " + stream + " does not exist"} {
		if got.code != exitFailed || !strings.Contains(got.out, want) {
			t.Errorf("check: exit code %d, want %d and %q:\n%s", got.code, exitFailed, want, got.out)
		}
	}
	if strings.Contains(got.out, "sink mail") || strings.Contains(got.out+got.err, "xoxb") {
		t.Errorf("check:\n%s%s", got.out, got.err)
	}
	r.beside("slack.secret", "xoxb-1")
	nc, err := nats.Connect(bus.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	r.must("check")
	stop := r.relay()
	r.must("send", "--type", "mail", "--header", "recipient=bob@example.org", `{"subject": "Hello", "body": "Hi"}`)
	r.must("send", "--type", "chat", "--topic", "C1", "Hello")
	for i := range 20 {
		r.must("send", "--type", "event", "--topic", stream+".a", "--group", "g", fmt.Sprint(i))
	}
	until(t, "the mail", func() bool { return len(mails.Mails()) == 1 })
	until(t, "the message", func() bool { return room.said() == "C1: Hello" })
	until(t, "the events", func() bool {
		info, err := kept.Info(t.Context())
		return err == nil && info.State.Msgs == 20
	})
	for i := range 20 {
		m, err := kept.GetMsg(t.Context(), uint64(i)+1)
		if err != nil || string(m.Data) != fmt.Sprint(i) || m.Header.Get("tailbox-group") != "g" || m.Header.Get("Nats-Msg-Id") != m.Header.Get("id") {
			t.Fatalf("event %d: %+v, %v", i, m, err)
		}
	}
	if m := mails.Mails()[0]; m.To[0] != "bob@example.org" || m.Username != servers.MailUsername || !strings.Contains(string(m.Data), "Subject: Hello\r\n") {
		t.Errorf("mail to %v by %q:\n%s", m.To, m.Username, m.Data)
	}
	if got := stop(); got.code != exitDone || strings.Contains(got.err, "xoxb") || strings.Contains(got.err, servers.MailPassword) {
		t.Errorf("run: exit code %d\n%s", got.code, got.err)
	}
}

// beside writes a file beside the rig's configuration.
func (r *rig) beside(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.file), name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// More sinks than one pipeline can have are refused before anything starts: by check, by a start and by a reload.
func TestTooManySinks(t *testing.T) {
	t.Parallel()
	text := "pipeline: shop\nsource: {kind: postgres, url: postgres://localhost/x}\nadmin: {listen: off}\nsinks:\n"
	for i := range 61 {
		text += fmt.Sprintf("  s%d: {kind: discard}\n", i)
	}
	file := write(t, "tailbox.yaml", text)
	got := tailbox(t.Context(), "", "check", "--offline", "-c", file)
	if got.code != exitUsage || !strings.Contains(got.err, "61 sinks are more than the 60 that one pipeline can have") {
		t.Errorf("%+v", got)
	}
}
