package slack_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/slack"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

const token = "xoxb-secret"

// workspace answers as Slack documents it: incoming webhooks at /hook, and the Web API's methods below /api.
type workspace struct {
	addr string

	mu     sync.Mutex
	server *http.Server
	hold   chan struct{}
	answer func(method string, posted map[string]json.RawMessage) (status int, retryAfter, body string)
	posts  []post
}

// post is what was taken.
type post struct {
	channel, text, body string
	metadata            struct {
		EventType    string         `json:"event_type"`
		EventPayload map[string]any `json:"event_payload"`
	}
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := new(workspace)
	w.start(t)
	t.Cleanup(func() { w.stop(t) })
	return w
}

func (w *workspace) start(t testing.TB) {
	w.mu.Lock()
	if w.addr == "" {
		w.addr = servers.FreeAddr(t)
	}
	w.mu.Unlock()
	l, err := servers.ListenAgain(w.addr)
	if err != nil {
		t.Error(err)
		return
	}
	server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
	w.mu.Lock()
	w.server = server
	w.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends with stop
}

func (w *workspace) stop(testing.TB) {
	w.mu.Lock()
	server := w.server
	w.mu.Unlock()
	_ = server.Close() // its connections are cut either way
}

func (w *workspace) hang(testing.TB) func() {
	hold := make(chan struct{})
	w.mu.Lock()
	w.hold = hold
	w.mu.Unlock()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.hold = nil
		w.mu.Unlock()
		close(hold)
	})
}

// say sets what is answered; nil is success.
func (w *workspace) say(answer func(method string, posted map[string]json.RawMessage) (status int, retryAfter, body string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

func (w *workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	w.mu.Lock()
	hold, answer := w.hold, w.answer
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}
	members := map[string]json.RawMessage{}
	p := post{body: string(body)}
	method, isMethod := strings.CutPrefix(r.URL.Path, "/api/")
	good := json.Unmarshal(body, &members) == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	_ = json.Unmarshal(members["channel"], &p.channel) // absent for webhooks
	_ = json.Unmarshal(members["text"], &p.text)       // may be absent
	_ = json.Unmarshal(members["metadata"], &p.metadata)
	status, retryAfter, text := http.StatusOK, "", ""
	if answer != nil {
		status, retryAfter, text = answer(method, members)
	}
	switch {
	case text != "" || status != http.StatusOK:
	case !good && isMethod:
		text = `{"ok":false,"error":"invalid_json"}`
	case !good:
		status, text = http.StatusBadRequest, "invalid_payload"
	case isMethod && r.Header.Get("Authorization") != "Bearer "+token:
		text = `{"ok":false,"error":"invalid_auth"}`
	case method == "auth.test":
		text = `{"ok":true,"url":"https://shop.slack.com/","team":"Shop"}`
	case isMethod && method != "chat.postMessage":
		text = `{"ok":false,"error":"unknown_method"}`
	case p.text == "" && members["blocks"] == nil && isMethod:
		text = `{"ok":false,"error":"no_text"}`
	case isMethod:
		text = fmt.Sprintf(`{"ok":true,"channel":%q,"ts":"1503435956.000247","message":{}}`, p.channel)
		w.take(p)
	default:
		text = "ok"
		w.take(p)
	}
	if retryAfter != "" {
		rw.Header().Set("Retry-After", retryAfter)
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text) // the client sees it
}

func (w *workspace) take(p post) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posts = append(w.posts, p)
}

func (w *workspace) taken() []post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

func (w *workspace) config(asWebhook bool) slack.Config {
	if asWebhook {
		return slack.Config{WebhookURL: "http://" + w.addr + "/hook/T0/B0/secret"}
	}
	return slack.Config{Token: token, APIURL: "http://" + w.addr + "/api"}
}

func newSink(t testing.TB, cfg slack.Config) *slack.Sink {
	t.Helper()
	s, err := slack.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wrapped makes a text of any value, so that the kit can deliver what it likes.
type wrapped struct{ *slack.Sink }

func (w wrapped) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	texts := make([]*sink.Delivery, len(ds))
	for i, d := range ds {
		own := *d
		text := "nil"
		if d.Value != nil {
			text = "v" + base64.StdEncoding.EncodeToString(d.Value)
		}
		own.Value = fmt.Appendf(nil, `{"text": %q, "id": %q}`, text, base64.StdEncoding.EncodeToString([]byte(d.Message.ID)))
		texts[i] = &own
	}
	return w.Sink.Deliver(ctx, texts)
}

func arrivals(t testing.TB, posts []post, asWebhook bool) []sinktest.Arrival {
	t.Helper()
	all := make([]sinktest.Arrival, len(posts))
	for i, p := range posts {
		var own struct{ ID string }
		if err := json.Unmarshal([]byte(p.body), &own); err != nil {
			t.Fatal(err)
		}
		id, err := base64.StdEncoding.DecodeString(own.ID)
		if err != nil {
			t.Fatal(err)
		}
		a := sinktest.Arrival{ID: string(id)}
		if text, ok := strings.CutPrefix(p.text, "v"); ok {
			if a.Value, err = base64.StdEncoding.DecodeString(text); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"id", "type", "group", "position", "attempt", "source"} {
			if !asWebhook {
				a.Headers = append(a.Headers, outbox.Header{Name: name, Value: []byte(fmt.Sprint(p.metadata.EventPayload[name]))})
			}
		}
		all[i] = a
	}
	return all
}

func TestKit(t *testing.T) {
	t.Parallel()
	for name, asWebhook := range map[string]bool{"webhook": true, "token": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, sinktest.Harness{
				New: func(t *testing.T) sinktest.Place {
					w := newWorkspace(t)
					return sinktest.Place{
						Sink: wrapped{newSink(t, w.config(asWebhook))}, Topic: "C0123",
						Arrived: func(t testing.TB) []sinktest.Arrival { return arrivals(t, w.taken(), asWebhook) },
						Stop:    w.stop, Start: w.start, Hang: w.hang,
					}
				},
				Want: func(d *sink.Delivery, a sinktest.Arrival) sinktest.Arrival {
					a.Key, a.Headers = nil, nil
					if asWebhook {
						return a
					}
					attempt := fmt.Sprint(d.Attempt)
					if d.Attempt == 1<<30 {
						attempt = fmt.Sprint(float64(d.Attempt)) // as the test's own reader has it
					}
					for _, one := range [][2]string{{"id", d.Message.ID}, {"type", d.Message.Type}, {"group", d.Message.Group},
						{"position", d.Message.Position.String()}, {"attempt", attempt}, {"source", d.Source}} {
						a.Headers = append(a.Headers, outbox.Header{Name: one[0], Value: []byte(one[1])})
					}
					return a
				},
			})
		})
	}
}
