package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/internal/api"
)

const (
	sessionTime = 12 * time.Hour
	// At most failedLogins of one address may fail within loginWindow.
	failedLogins, loginWindow = 10, time.Minute
	// mostSessions bounds how many sessions there are at once: the oldest ends.
	mostSessions = 10_000
)

// sessions are the logins of browsers. They live in memory: a restart ends them. A session holds only the hash of a token, and ends with it.
type sessions struct {
	tokens *api.Tokens
	// cookie is the cookie's name: that of the pipeline, because a browser sends cookies to all ports of a host.
	cookie string
	mu     sync.Mutex
	open   map[string]session
	// failed are the times of failed logins by address.
	failed map[string][]time.Time
}

type session struct {
	token api.Hash
	ends  time.Time
}

func newSessions(tokens *api.Tokens, pipeline string) *sessions {
	hash := sha256.Sum256([]byte(pipeline))
	return &sessions{tokens: tokens, cookie: "tailbox_" + hex.EncodeToString(hash[:8]), open: make(map[string]session), failed: make(map[string][]time.Time)}
}

// of returns who has logged in with the browser that sent a request.
func (s *sessions) of(r *http.Request) (who api.Principal, ok bool) {
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return who, false
	}
	s.mu.Lock()
	one, ok := s.open[cookie.Value]
	s.mu.Unlock()
	if !ok || time.Now().After(one.ends) {
		return who, false
	}
	return s.tokens.Holder(one.token)
}

// begin makes a session of a token, and returns its name; ok is false if nobody holds the token.
func (s *sessions) begin(token string) (name string, ok bool) {
	hash := api.HashOf(token)
	if _, ok := s.tokens.Holder(hash); !ok {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	oldest, ends := "", now.Add(sessionTime)
	for name, one := range s.open {
		if now.After(one.ends) {
			delete(s.open, name)
		} else if one.ends.Before(ends) {
			oldest, ends = name, one.ends
		}
	}
	if len(s.open) >= mostSessions {
		delete(s.open, oldest)
	}
	name = rand.Text()
	s.open[name] = session{hash, now.Add(sessionTime)}
	return name, true
}

func (s *sessions) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, name)
}

// slowed reports whether an address has failed to log in so often that it has to wait. noteFailure counts a failure.
func (s *sessions) slowed(address string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, times := range s.failed {
		if now.Sub(times[len(times)-1]) > loginWindow {
			delete(s.failed, other)
		}
	}
	times := s.failed[address]
	return len(times) >= failedLogins && now.Sub(times[len(times)-failedLogins]) < loginWindow
}

func (s *sessions) noteFailure(address string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := append(s.failed[address], now)
	s.failed[address] = times[max(0, len(times)-failedLogins):]
}

func (s *console) loginPage(w http.ResponseWriter, r *http.Request) {
	s.askToken(w, http.StatusOK, localPath(r.URL.Query().Get("to")), "")
}

// askToken shows the login, which leads to a page. why is why the last one failed; "" for none.
func (s *console) askToken(w http.ResponseWriter, status int, to, why string) {
	s.write(w, status, page{Title: "Log in"},
		g.Iff(why != "", func() g.Node { return problem(why) }),
		h.Form(h.Class("card"), h.Method("post"), h.Action("/login"), hidden("to", to),
			h.Label(h.For("token"), g.Text("Token")),
			h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
			h.P(h.Class("hint"), g.Text("A token of "), h.Code(g.Text("admin.tokens")), g.Text(" of the relay's configuration.")),
			h.Button(h.Class("primary"), g.Text("Log in"))))
}

// login turns a token into a session.
func (s *console) login(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	to := localPath(r.PostFormValue("to"))
	name, ok := s.sessions.begin(strings.TrimSpace(r.PostFormValue("token")))
	switch { // who holds a token is let in, however often others behind the same proxy failed
	case ok:
	case s.sessions.slowed(address, time.Now()):
		w.Header().Set("Retry-After", "60")
		s.askToken(w, http.StatusTooManyRequests, to, "Too many logins have failed: wait a minute.")
		return
	default:
		s.sessions.noteFailure(address, time.Now())
		s.askToken(w, http.StatusUnauthorized, to, "Nobody holds this token. Use one of admin.tokens of the relay's configuration.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.sessions.cookie, Value: name, Path: "/", HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionTime / time.Second)})
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// secure reports whether the browser speaks TLS, perhaps with a proxy in front: sameOrigin has checked the header.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

func (s *console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.sessions.cookie); err == nil {
		s.sessions.end(cookie.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: s.sessions.cookie, Path: "/", HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode, MaxAge: -1})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// localPath is a path of the console that a login may lead to; "/" in place of all else. Browsers read a backslash as a slash, and a redirect cleans its
// path, so that a path is escaped, and has nothing to clean.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || path.Clean(u.EscapedPath()) != u.EscapedPath() {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
