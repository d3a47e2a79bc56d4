package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ask reads one text from Postgres.
func (r *rig) ask(sql string, args ...any) string {
	r.t.Helper()
	var text string
	if err := r.conn.QueryRow(r.t.Context(), "SELECT ("+sql+")::text", args...).Scan(&text); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// insert writes a row, and returns the text that it gives back.
func (r *rig) insert(sql string, args ...any) (id string) {
	r.t.Helper()
	if err := r.conn.QueryRow(r.t.Context(), sql, args...).Scan(&id); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return id
}

// shows waits until the query gives the text.
func (r *rig) shows(want, sql string, args ...any) {
	r.t.Helper()
	last := ""
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: %q", sql, last)
		}
	}()
	until(r.t, want, func() bool { last = r.ask(sql, args...); return last == want })
}

// A platform is an HTTP API that takes JSON arrays. It asks for a token, and refuses requests with a message that holds a word of
// refuse, with that status.
type platform struct {
	*httptest.Server
	mu     sync.Mutex
	refuse map[string]int
	any    bool     // takes any body of any sender
	got    []string // path and the n of each message that was taken
}

func newPlatform(t *testing.T, token string) *platform {
	t.Helper()
	p := &platform{refuse: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var messages []struct{ N string }
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.any:
			p.got = append(p.got, req.URL.Path+" ")
			return
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case req.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
			return
		case json.Unmarshal(body, &messages) != nil:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for word, status := range p.refuse {
			if strings.Contains(string(body), word) {
				http.Error(w, "no "+word, status)
				return
			}
		}
		for _, m := range messages {
			p.got = append(p.got, req.URL.Path+" "+m.N)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// refuses sets the status for requests with the word; 0 takes it back.
func (p *platform) refuses(word string, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse[word] = status
	if status == 0 {
		delete(p.refuse, word)
	}
}

// took counts how often a message was taken.
func (p *platform) took(path, n string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, one := range p.got {
		if one == path+" "+n {
			count++
		}
	}
	return count
}

// inOrder reports whether the messages were taken one after the other.
func (p *platform) inOrder(path string, ns ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 0
	for _, n := range ns {
		i := slices.Index(p.got[at:], path+" "+n)
		if i < 0 {
			return false
		}
		at += i + 1
	}
	return true
}
