// Package console serves the pages by which people look at a pipeline and steer it with a browser. Its pages are made on the server, and reading and
// every verb work without script. The console is a client of the HTTP API, inside the same process: it shows what the API answers to the role of the
// one who has logged in, and can do nothing that the API does not do for that role.
//
// Pages are built by functions, which escape all texts, and not by html/template: text/template looks methods up by name, so that the linker keeps every
// exported method of the program, which is 5 MB of code.
package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/tailbox/tailbox/internal/api"
)

// Config is what a console is made of.
type Config struct {
	Pipeline string
	// API answers what the pages show.
	API    http.Handler
	Tokens *api.Tokens
	Logger *slog.Logger
}

//go:embed static
var files embed.FS

type console struct {
	Config
	sessions *sessions
}

// New returns a handler of all pages, and of what they are made of.
func New(c Config) http.Handler {
	s := &console{Config: c, sessions: newSessions(c.Tokens, c.Pipeline)}
	mux := http.NewServeMux()
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // cannot be: the folder is embedded
	}
	mux.Handle("GET /static/", http.StripPrefix("/static/", named(http.FileServerFS(static))))
	mux.HandleFunc("GET /login", s.loginPage)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /{$}", s.in((*visit).overviewPage))
	mux.HandleFunc("GET /failures", s.in((*visit).failuresPage))
	mux.HandleFunc("GET /deliveries", s.in((*visit).deliveriesPage))
	mux.HandleFunc("GET /messages/{id}", s.in((*visit).messagePage))
	mux.HandleFunc("GET /message", s.in((*visit).messagePage)) // also of an id that no path can hold, such as ..
	mux.HandleFunc("GET /groups", s.in((*visit).groupsPage))
	mux.HandleFunc("GET /sinks", s.in((*visit).sinksPage))
	mux.HandleFunc("GET /source", s.in((*visit).sourcePage))
	mux.HandleFunc("GET /live", s.in((*visit).livePage))
	mux.HandleFunc("GET /live/stream", s.in((*visit).liveStream))
	mux.HandleFunc("GET /audit", s.in((*visit).auditPage))
	mux.HandleFunc("GET /audit/{id}", s.in((*visit).requestPage))
	mux.HandleFunc("GET /config", s.in((*visit).configPage))
	mux.HandleFunc("POST /do/{verb}", s.in((*visit).doForm))
	mux.HandleFunc("/", s.in(func(v *visit) { v.fail(http.StatusNotFound, "There is no such page.") }))
	return secured(c.Tokens.Hosts(sameOrigin(mux)))
}

// named answers that there is no file if the path cannot be the name of one: a file server fails there.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fs.ValidPath(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// secured adds the headers that keep a page from running what it did not bring, and from being framed.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		if !strings.HasPrefix(r.URL.Path, "/static/") {
			h.Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses what would change something, unless a page of the console itself has sent it.
func sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if !api.SameOrigin(r.Header.Get("Origin"), r.Host) {
				http.Error(w, "this form was not sent by the console", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A visit is one request of somebody who has logged in.
type visit struct {
	*console
	w   http.ResponseWriter
	r   *http.Request
	who api.Principal
}

// in serves a page to whom a proxy names, and to those who have logged in. It sends others to the login.
func (s *console) in(show func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := s.Tokens.Named(r)
		if err != nil {
			s.write(w, http.StatusForbidden, page{Title: "Forbidden"}, problem(err.Error()))
			return
		}
		if !ok {
			who, ok = s.sessions.of(r)
		}
		if !ok {
			to := "/login"
			if r.Method == http.MethodGet && r.URL.Path != "/" {
				to += "?to=" + url.QueryEscape(r.URL.RequestURI())
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		show(&visit{s, w, r, who})
	}
}

// A failure is an answer of the API that is none.
type failure struct {
	status int
	detail string
}

func (f *failure) Error() string { return f.detail }

// get asks the API, in the name of the visitor.
func (v *visit) get(path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return v.ask(http.MethodGet, path, nil, into)
}

func (v *visit) ask(method, path string, body, into any) error {
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("ask the API: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(api.As(v.r.Context(), v.who), method, "http://localhost"+api.Prefix+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	got := &recorder{header: http.Header{}, status: http.StatusOK}
	v.API.ServeHTTP(got, req)
	if got.status >= http.StatusBadRequest {
		return got.failure()
	}
	if err := json.Unmarshal(got.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the API's answer: %w", err)
	}
	return nil
}

// A recorder keeps an answer of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *recorder) failure() error {
	var p struct {
		Detail string
		Errors []struct{ Message, Location string }
	}
	f := &failure{r.status, r.body.String()}
	if json.Unmarshal(r.body.Bytes(), &p) == nil && p.Detail != "" {
		f.detail = p.Detail
		for _, e := range p.Errors {
			f.detail += "; " + e.Location + ": " + e.Message
		}
	}
	return f
}
