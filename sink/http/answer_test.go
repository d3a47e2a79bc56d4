package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
)

func deliveries(n int) []*sink.Delivery {
	ds := make([]*sink.Delivery, n)
	for i := range ds {
		ds[i] = &sink.Delivery{Message: &outbox.Message{ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i)},
			Value: fmt.Appendf(nil, `{"n":%d}`, i), Attempt: 1, Source: "shop"}
	}
	return ds
}

func TestStatus(t *testing.T) {
	t.Parallel()
	in10 := time.Now().Add(10 * time.Minute).UTC().Format(nethttp.TimeFormat)
	for _, test := range []struct {
		status     int
		retryAfter string
		class      sink.Class
		min, max   time.Duration
		says       string
	}{
		{status: 200}, {status: 201}, {status: 202}, {status: 204}, {status: 299},
		{status: 301, class: sink.ClassMisconfigured, says: "https://example.org/…"},
		{status: 302, class: sink.ClassMisconfigured}, {status: 304, class: sink.ClassMisconfigured}, {status: 307, class: sink.ClassMisconfigured},
		{status: 400, class: sink.ClassPermanent, says: "400 Bad Request: field x is missing"},
		{status: 401, class: sink.ClassMisconfigured, says: "check bearer"},
		{status: 402, class: sink.ClassMisconfigured, says: "check the account"},
		{status: 403, class: sink.ClassMisconfigured}, {status: 404, class: sink.ClassMisconfigured, says: "check url"},
		{status: 405, class: sink.ClassMisconfigured}, {status: 407, class: sink.ClassMisconfigured, says: "HTTP_PROXY"},
		{status: 408, class: sink.ClassUnavailable}, {status: 409, class: sink.ClassRejected},
		{status: 410, class: sink.ClassMisconfigured}, {status: 413, class: sink.ClassPermanent},
		{status: 415, class: sink.ClassPermanent}, {status: 418, class: sink.ClassPermanent},
		{status: 421, class: sink.ClassMisconfigured, says: "check url, tls.server_name"},
		{status: 422, class: sink.ClassPermanent}, {status: 423, class: sink.ClassMisconfigured, says: "check the endpoint"},
		{status: 424, class: sink.ClassMisconfigured, says: "check the endpoint"}, {status: 425, class: sink.ClassRejected},
		{status: 426, class: sink.ClassMisconfigured, says: "check url"},
		{status: 429, class: sink.ClassThrottled},
		{status: 429, retryAfter: "7", class: sink.ClassThrottled, min: 7 * time.Second, max: 7 * time.Second},
		{status: 429, retryAfter: "999999", class: sink.ClassThrottled, min: time.Hour, max: time.Hour},
		{status: 429, retryAfter: "99999999999999999999999", class: sink.ClassThrottled, min: time.Hour, max: time.Hour},
		{status: 429, retryAfter: in10, class: sink.ClassThrottled, min: 9 * time.Minute, max: 10 * time.Minute},
		{status: 429, retryAfter: "Mon, 02 Jan 2006 15:04:05 GMT", class: sink.ClassThrottled},
		{status: 429, retryAfter: "soon", class: sink.ClassThrottled},
		{status: 431, class: sink.ClassPermanent},
		{status: 500, class: sink.ClassRejected}, {status: 501, class: sink.ClassRejected},
		{status: 502, class: sink.ClassUnavailable}, {status: 503, class: sink.ClassUnavailable},
		{status: 503, retryAfter: "3", class: sink.ClassThrottled, min: 3 * time.Second, max: 3 * time.Second},
		{status: 504, class: sink.ClassUnavailable}, {status: 519, class: sink.ClassRejected}, {status: 520, class: sink.ClassUnavailable},
		{status: 521, class: sink.ClassUnavailable}, {status: 522, class: sink.ClassUnavailable}, {status: 524, class: sink.ClassUnavailable},
		{status: 527, class: sink.ClassUnavailable}, {status: 528, class: sink.ClassRejected}, {status: 529, class: sink.ClassRejected},
		{status: 530, class: sink.ClassUnavailable}, {status: 599, class: sink.ClassRejected}, {status: 700, class: sink.ClassRejected},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				w.Header().Set("Location", "https://example.org/moved")
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.status)
				if test.status != 204 && test.status != 304 {
					fmt.Fprint(w, "field x\n\x1b is missing")
				}
			})
			for _, n := range []int{1, 3} {
				s := newSink(t, http.Config{URL: e.url()})
				answers := s.Deliver(t.Context(), deliveries(n))
				if test.status < 300 {
					if answers != nil {
						t.Errorf("answers: %v", answers)
					}
					continue
				}
				if len(answers) != n {
					t.Fatalf("%d answers for %d deliveries", len(answers), n)
				}
				for _, err := range answers {
					class, after, whole := sink.Classify(err)
					if class != test.class || after < test.min || after > test.max {
						t.Errorf("%d deliveries: %v after %v: %v, want %v after %v to %v", n, class, after, err, test.class, test.min, test.max)
					}
					if want := n > 1 && class != sink.ClassThrottled; whole != want {
						t.Errorf("%d deliveries: whole = %v, want %v", n, whole, want)
					}
					if !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), fmt.Sprint(test.status)) {
						t.Errorf("error does not say %q: %v", test.says, err)
					}
					if strings.ContainsAny(err.Error(), "\x1b\n") {
						t.Errorf("error holds control characters: %q", err)
					}
				}
			}
		})
	}
}

// nginxPage is the page of an error that nginx gives before it looks at the request.
func nginxPage(title string) string {
	return "<html>\r\n<head><title>400 " + title + "</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>" + title +
		"</center>\r\n<hr><center>nginx/1.26.3</center>\r\n</body>\r\n</html>\r\n"
}

// TestBadRequestsOfTheFront: a web server that refuses the client's certificate, or plain HTTP, says so with a 400, to every request. It is no fault of
// a message. An endpoint that repeats such a text within its own answer judges the message.
func TestBadRequestsOfTheFront(t *testing.T) {
	t.Parallel()
	apache := "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>400 Bad Request</title>\n</head><body>\n<h1>Bad Request</h1>\n" +
		"<p>Your browser sent a request that this server could not understand.<br />\nReason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n" +
		" Instead use the HTTPS scheme to access this URL, please.<br />\n</p>\n</body></html>\n"
	for name, test := range map[string]struct {
		body, says string
		class      sink.Class
	}{
		"expired certificate": {nginxPage("The SSL certificate error"), "check tls.cert and tls.key", sink.ClassMisconfigured},
		"no certificate":      {nginxPage("No required SSL certificate was sent"), "check tls.cert and tls.key", sink.ClassMisconfigured},
		"plain HTTP":          {nginxPage("The plain HTTP request was sent to HTTPS port"), "check url", sink.ClassMisconfigured},
		"plain HTTP, Apache":  {apache, "check url", sink.ClassMisconfigured},
		"large headers":       {nginxPage("Request Header Or Cookie Too Large"), "400", sink.ClassPermanent},
		"repeated":            {`{"error":"bad note","note":"400 No required SSL certificate was sent"}`, "400", sink.ClassPermanent},
		"repeated page":       {"<p>bad note: " + nginxPage("The SSL certificate error"), "400", sink.ClassPermanent},
		"repeated text":       {"bad note: Client sent an HTTP request to an HTTPS server.", "400", sink.ClassPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				w.WriteHeader(400)
				fmt.Fprint(w, test.body)
			})
			err := newSink(t, http.Config{URL: e.url()}).Deliver(t.Context(), deliveries(1))[0]
			if got, _, _ := sink.Classify(err); got != test.class || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: %v, want %v, with %q", got, err, test.class, test.says)
			}
		})
	}

	// Go's own server, asked in the clear where it speaks TLS.
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	err := newSink(t, http.Config{URL: "http://" + secure.Listener.Addr().String()}).Deliver(t.Context(), deliveries(1))[0]
	if got, _, _ := sink.Classify(err); got != sink.ClassMisconfigured || !strings.Contains(err.Error(), "check url") {
		t.Errorf("%v: %v, want misconfigured", got, err)
	}
}

func TestLongAnswer(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.WriteHeader(500)
		for range 1000 {
			if _, err := w.Write([]byte(strings.Repeat("ä", 1000))); err != nil {
				return
			}
		}
	})
	s := newSink(t, http.Config{URL: e.url()})
	if err := s.Deliver(t.Context(), deliveries(1))[0]; len(err.Error()) > 700 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	classes := func(classes ...sink.Class) []sink.Class { return classes }
	const delivered = sink.Class(255)
	for _, test := range []struct {
		name, body string
		want       []sink.Class // nil: all delivered
		says       string
		whole      bool // any of the messages may be the cause
	}{
		{name: "all", body: `{"results":[{"id":"m0","status":"delivered"},{"id":"m1","status":"delivered"},{"id":"m2","status":"delivered"}]}`},
		{name: "by id in any order", body: `{"results":[{"id":"m2","status":"rejected","error":"no such sku"},{"id":"m0","status":"delivered"},{"id":"m1","status":"retry"}]}`,
			want: classes(delivered, sink.ClassRejected, sink.ClassPermanent), says: "no such sku"},
		{name: "by index", body: `{"results":[{"status":"delivered"},{"status":"rejected"},{"status":"delivered"}]}`,
			want: classes(delivered, sink.ClassPermanent, delivered)},
		{name: "left out", body: `{"results":[{"id":"m1","status":"delivered"}]}`,
			want: classes(sink.ClassRejected, delivered, sink.ClassRejected), says: "left out"},
		{name: "none", body: `{"results":[]}`, want: classes(sink.ClassRejected, sink.ClassRejected, sink.ClassRejected)},
		{name: "unknown id, too many", body: `{"results":[{"id":"x","status":"delivered"},{"status":"delivered"},{"status":"delivered"},{"status":"delivered"}]}`,
			want: classes(sink.ClassRejected, delivered, delivered)},
		{name: "unknown status", body: `{"results":[{"status":"ok"},{"status":"delivered"},{"status":"delivered"}]}`,
			want: classes(sink.ClassRejected, delivered, delivered), says: "want delivered, retry or rejected"},
		{name: "no body", body: ``, want: classes(sink.ClassMisconfigured, sink.ClassMisconfigured, sink.ClassMisconfigured), says: "set results to false", whole: true},
		{name: "long errors", body: `{"results":[{"status":"delivered"},{"status":"retry","error":"` + strings.Repeat("x", 250<<10) + `"},{"status":"delivered"}]}`,
			want: classes(delivered, sink.ClassRejected, delivered)},
		{name: "too large", body: `{"results":[{"status":"delivered"},{"status":"retry","error":"` + strings.Repeat("x", 280<<10) + `"},{"status":"delivered"}]}`,
			want: classes(sink.ClassRejected, sink.ClassRejected, sink.ClassRejected), says: "more than 274432 bytes", whole: true},
		{name: "too large to be read", body: `{"results":[{"error":"` + strings.Repeat("x", 5<<20),
			want: classes(sink.ClassRejected, sink.ClassRejected, sink.ClassRejected), says: "more than 274432 bytes", whole: true},
		{name: "other JSON", body: `{"ok":true}`, want: classes(sink.ClassMisconfigured, sink.ClassMisconfigured, sink.ClassMisconfigured), whole: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				fmt.Fprint(w, test.body)
			})
			s := newSink(t, http.Config{URL: e.url(), Results: true})
			if l := s.Limits(); l.Run != 1 || l.Batch != 100 {
				t.Errorf("limits %+v, want Run 1", l)
			}
			answers := s.Deliver(t.Context(), deliveries(3))
			if (answers == nil) != (test.want == nil) {
				t.Fatalf("answers: %v", answers)
			}
			said := test.says == ""
			for i, err := range answers {
				class, _, whole := sink.Classify(err)
				if err == nil {
					class = delivered
				} else {
					said = said || strings.Contains(err.Error(), test.says)
				}
				if class != test.want[i] || whole != test.whole {
					t.Errorf("answer %d: %v (whole %v), want class %d", i, err, whole, test.want[i])
				}
			}
			if !said {
				t.Errorf("no error says %q: %v", test.says, answers)
			}
		})
	}
}

// TestResultsOfTwoTables delivers two messages with the same id in one request.
func TestResultsOfTwoTables(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		fmt.Fprint(w, `{"results":[{"id":"m0","status":"delivered"},{"id":"m0","status":"rejected"}]}`)
	})
	ds := deliveries(2)
	ds[1].Message.ID = "m0"
	answers := newSink(t, http.Config{URL: e.url(), Results: true}).Deliver(t.Context(), ds)
	if len(answers) != 2 || answers[0] != nil || answers[1] == nil {
		t.Errorf("answers: %v, want nil and an error", answers)
	}
}

// TestManyIDs delivers more ids than headers can hold: several requests, and after the first that fails no further.
func TestManyIDs(t *testing.T) {
	t.Parallel()
	var requests, messages atomic.Int64
	var fail atomic.Int64
	e := newEndpoint(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		ids := strings.Split(r.Header.Get("tailbox-ids"), ",")
		positions := strings.Split(r.Header.Get("tailbox-positions"), ",")
		if len(ids) != len(positions) || len(r.Header.Get("tailbox-ids")) > 4000 || len(r.Header.Get("tailbox-positions")) > 4000 {
			w.WriteHeader(400)
			return
		}
		if requests.Add(1) == fail.Load() {
			w.WriteHeader(500)
			return
		}
		messages.Add(int64(len(ids)))
	})
	s := newSink(t, http.Config{URL: e.url(), MaxBatch: 500})
	ds := deliveries(500)
	for i := range ds {
		ds[i].Message.ID = fmt.Sprintf("%036d", i)
	}
	if answers := s.Deliver(t.Context(), ds); answers != nil {
		t.Fatal(answers)
	}
	if got := messages.Load(); got != 500 || requests.Load() != 5 {
		t.Errorf("%d messages in %d requests, want 500 in 5", got, requests.Load())
	}
	fail.Store(requests.Load() + 3)
	answers := s.Deliver(t.Context(), ds)
	count := map[sink.Class]int{}
	for i, err := range answers {
		class, _, whole := sink.Classify(err)
		switch {
		case err == nil:
			if i > 0 && answers[i-1] != nil {
				t.Fatalf("answer %d is nil after an error", i)
			}
		case whole != (class == sink.ClassRejected):
			t.Errorf("answer %d: %v, whole = %v", i, class, whole)
		}
		if err != nil {
			count[class]++
		}
	}
	if count[sink.ClassRejected] < 50 || count[sink.ClassNotAttempted] < 50 || len(count) != 2 {
		t.Errorf("classes: %v", count)
	}
	if got := requests.Load(); got != fail.Load() {
		t.Errorf("%d requests, want none after number %d", got, fail.Load())
	}
}

func TestDefaultBatchFits(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	var headerBytes atomic.Int64
	e := newEndpoint(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		requests.Add(1)
		n := 0
		for name, values := range r.Header {
			n += len(name) + len(values[0]) + 4
		}
		headerBytes.Store(int64(n))
	})
	s := newSink(t, http.Config{URL: e.url()})
	ds := deliveries(s.Limits().Batch)
	for i := range ds {
		ds[i].Message.ID = fmt.Sprintf("0198c0de-0000-7000-8000-%012d", i)
	}
	if answers := s.Deliver(t.Context(), ds); answers != nil {
		t.Fatal(answers)
	}
	if requests.Load() != 1 || headerBytes.Load() > 7800 {
		t.Errorf("%d requests with %d bytes of headers, want one below 7800", requests.Load(), headerBytes.Load())
	}
}

// TestRedirectToNowhere: an answer that names no address is not said to name one.
func TestRedirectToNowhere(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(304) })
	err := newSink(t, http.Config{URL: e.url()}).Deliver(t.Context(), deliveries(1))[0]
	if err == nil || strings.Contains(err.Error(), "here") || !strings.Contains(err.Error(), "no other address is named: check url") {
		t.Errorf("error: %v", err)
	}
}

func TestErrorsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	e := newEndpoint(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if u, p, _ := r.BasicAuth(); u != "user" || p != "secret" {
			t.Errorf("basic authentication %q %q", u, p)
		}
		if r.URL.Query().Get("token") != "secret" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		w.Header().Set("Location", r.URL.Path+"/secret/")
		w.WriteHeader(int(status.Load()))
	})
	s := newSink(t, http.Config{URL: "http://user:secret@" + e.address + "/hooks/secret?token=secret"})
	status.Store(500)
	err := s.Deliver(t.Context(), deliveries(1))[0]
	status.Store(308)
	moved := s.Deliver(t.Context(), deliveries(1))[0]
	if moved == nil || !strings.Contains(moved.Error(), "at http://"+e.address+"/…") {
		t.Errorf("moved: %v", moved)
	}
	e.stop(t)
	for _, err := range []error{err, moved, s.Deliver(t.Context(), deliveries(1))[0], errors.Join(s.Check(context.Background())...)} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error: %v", err)
		}
	}
}
