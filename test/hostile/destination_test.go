package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailbox/tailbox/test/e2e"
	"github.com/tailbox/tailbox/test/servers"
)

// A destination is what a sink delivers to.
type destination struct {
	// sink is the line of the configuration, and topic where rows go that do not name another.
	sink, topic string
	got         *inbox
	// catchUp returns when all that was delivered is in got.
	catchUp func()
	// lies: the server may lie, so that a proxy stands before it.
	lies  bool
	proxy *servers.Proxy
	// refuse makes the server refuse each message with such an id for now, while others are taken; nil where that cannot be done.
	refuse func(such func(id string) bool)
	// open makes some of the topics that nobody has made, the first ones, and returns how many; nil if every topic is there.
	open func(topics []string) int
}

// sinks are the kinds that rows are delivered to.
func sinks() []string { return []string{"http", "kafka", "nats", "smtp"} }

func newDestination(tb testing.TB, kind string, lies bool) *destination {
	tb.Helper()
	d := &destination{lies: lies, topic: "events", got: &inbox{tb: tb, times: map[string]int{}}, catchUp: func() {}}
	switch kind {
	case "http":
		d.http(tb)
	case "kafka":
		d.kafka(tb)
	case "nats":
		d.nats(tb)
	case "smtp":
		d.smtp(tb)
	}
	return d
}

func (d *destination) http(tb testing.TB) {
	tb.Helper()
	d.got.escaped = true
	var refused atomic.Pointer[func(string) bool]
	d.refuse = func(such func(string) bool) { refused.Store(&such) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client was killed
		}
		if such := refused.Load(); such != nil && (*such)(r.Header.Get("id")) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		d.got.Deliver(false, e2e.Delivery{ID: r.Header.Get("id")})
	}))
	tb.Cleanup(server.Close)
	d.sink = fmt.Sprintf("{kind: http, url: %q, format: single%s}", "http://"+d.address(tb, server.Listener.Addr().String()), d.impatient())
}

func (d *destination) kafka(tb testing.TB) {
	tb.Helper()
	broker := servers.SharedKafka(tb)
	topic := e2e.ReadTopic(tb, broker, 4, d.got, map[string]string{"max.message.bytes": "20000000"})
	addr := broker.Brokers()[0]
	if d.lies {
		d.proxy = broker.Proxy(tb)
		addr = d.proxy.Addr
	}
	d.sink, d.topic, d.catchUp = fmt.Sprintf("{kind: kafka, brokers: [%q]%s}", addr, d.impatient()), topic.Name, topic.CatchUp
	d.open = func(topics []string) int {
		n := min(len(topics), 5)
		for _, name := range topics[:n] {
			if err := broker.CreateTopic(name, 1, nil); err != nil {
				tb.Fatal(err)
			}
		}
		return n
	}
}

func (d *destination) nats(tb testing.TB) {
	tb.Helper()
	d.got.escaped = true
	server := servers.NATS(tb, servers.NATSOptions{})
	stream := e2e.ReadStream(tb, []*servers.NATSServer{server}, d.got)
	d.sink, d.topic, d.catchUp = fmt.Sprintf("{kind: nats, servers: [%q]%s}", d.address(tb, server.Addr()), d.impatient()), stream.Name, stream.CatchUp
	d.open = func(topics []string) int {
		stream.Listen(stream.Name, "own.>")
		return len(topics)
	}
}

func (d *destination) smtp(tb testing.TB) {
	tb.Helper()
	d.got.escaped = true
	server := servers.StartMail(tb, servers.MailOptions{})
	var refused atomic.Pointer[func(string) bool]
	d.refuse = func(such func(string) bool) { refused.Store(&such) }
	server.On(func(e servers.MailEvent) error {
		if e.Step == "end" {
			m, err := mail.ReadMessage(bytes.NewReader(e.Mail.Data))
			if err != nil {
				d.got.Broke("changed", "a mail cannot be read: %v: %.300q", err, e.Mail.Data)
				return nil
			}
			id := strings.ReplaceAll(m.Header.Get("X-Tailbox-Id"), " ", "") // where a line was broken
			if such := refused.Load(); such != nil && (*such)(id) {
				return servers.MailAnswer(450, "not now")
			}
			d.got.Deliver(false, e2e.Delivery{ID: id})
		}
		return nil
	})
	d.sink = fmt.Sprintf(`{kind: smtp, address: %q, from: shop@example.org, to: bob@example.org, subject: "message:type", text: "payload:"%s}`,
		d.address(tb, server.Addr()), d.impatient())
}

// address is where the sink finds a server: behind a proxy, if it is going to lie.
func (d *destination) address(tb testing.TB, server string) string {
	tb.Helper()
	if !d.lies {
		return server
	}
	d.proxy = servers.NewProxy(tb, server)
	return d.proxy.Addr
}

// impatient is the configuration of a sink whose server may never answer.
func (d *destination) impatient() string {
	if !d.lies {
		return ""
	}
	return ", timeout: 1s, connect_timeout: 1s"
}

// An inbox counts deliveries by id. It is an [e2e.Keeper].
type inbox struct {
	tb      testing.TB
	escaped bool // ids come escaped by %XX

	mu     sync.Mutex
	times  map[string]int
	broken int
}

// Deliver implements [e2e.Keeper].
func (i *inbox) Deliver(_ bool, ds ...e2e.Delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range ds {
		id := d.ID
		if i.escaped {
			if text, err := url.PathUnescape(id); err == nil {
				id = text
			}
		}
		i.times[id]++
	}
}

// Broke implements [e2e.Keeper]. It shows the first few.
func (i *inbox) Broke(kind, format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.broken++; i.broken <= 5 {
		i.tb.Errorf("%s: %s", kind, fmt.Sprintf(format, args...))
	}
}

// has tells how often a message came.
func (i *inbox) has(id string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.times[id]
}
