package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/source/store"
)

// A Role says what the holder of a token may do. Each role may do what those before it may.
type Role int

// The roles, in their order.
const (
	// Viewer sees states, positions, ids and classes of errors, and nothing that an application or an endpoint wrote.
	Viewer Role = iota + 1
	// Auditor sees everything.
	Auditor
	// Operator asks for what changes deliveries, groups and sinks.
	Operator
	// Admin changes the relay itself.
	Admin
)

func (r Role) String() string {
	if r < Viewer || r > Admin {
		return "none"
	}
	return config.Roles()[r-Viewer]
}

// roleNamed returns the role with a name; 0 if there is none.
func roleNamed(name string) Role { return Role(slices.Index(config.Roles(), name) + 1) }

// A Principal is who asks.
type Principal struct {
	Name string
	Role Role
}

// Tokens knows who holds which token, and by which names clients may address the API. It is safe for concurrent use.
type Tokens struct {
	log     *slog.Logger
	mu      sync.Mutex
	holders []*holder
	metrics *holder // of the metrics' token, who has no role; nil if the metrics ask for none
	hosts   []string
	proxies proxies
}

// proxies are peers that say who asks, and by which headers.
type proxies struct {
	at         []netip.Prefix
	user, role string
}

// A holder is one token.
type holder struct {
	Principal
	file string // "" if the text stands in the configuration
	// hash is that of the token's text, and valid whether there is one. seen is the file as it was when it was read.
	hash  Hash
	valid bool
	seen  os.FileInfo
	told  bool // the log says that it is not valid
}

// NewTokens returns the tokens of the configuration.
func NewTokens(c *config.Admin, log *slog.Logger) *Tokens {
	t := &Tokens{log: log}
	t.Set(c)
	return t
}

// Set exchanges all tokens and names of hosts for those of another configuration.
func (t *Tokens) Set(c *config.Admin) {
	var holders []*holder
	if c.Token != "" {
		holders = append(holders, &holder{Principal: Principal{"admin", Admin}, hash: HashOf(c.Token), valid: true})
	}
	for _, one := range c.Tokens {
		holders = append(holders, &holder{Principal: Principal{one.Name, roleNamed(one.Role)}, file: one.File})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holders, t.hosts, t.metrics, t.proxies = holders, c.Hosts, nil, proxies{c.Proxies, c.UserHeader, c.RoleHeader}
	if c.MetricsTokenFile != "" {
		t.metrics = &holder{Principal: Principal{Name: "metrics"}, file: c.MetricsTokenFile}
	}
}

// End ends the tokens that another configuration does not have, or gives another role. To end one must not wait until that configuration is in force:
// with the database away, that takes as long as the database is. Set puts back what was ended.
func (t *Tokens) End(next *config.Admin) {
	other := NewTokens(next, t.log)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holders = slices.DeleteFunc(slices.Clone(t.holders), func(h *holder) bool {
		return !slices.ContainsFunc(other.holders, func(o *holder) bool {
			return o.Principal == h.Principal && o.file == h.file && (h.file != "" || o.hash == h.hash)
		})
	})
	if p := other.proxies; !slices.Equal(p.at, t.proxies.at) || p.user != t.proxies.user || p.role != t.proxies.role {
		t.proxies = proxies{}
	}
}

// None reports whether nobody holds a token, and no proxy says who asks, so that nobody could use the API.
func (t *Tokens) None() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holders) == 0 && len(t.proxies.at) == 0
}

// Named returns whom a trusted proxy names as the one who sends a request; ok is false if the peer is none, or names nobody. An error says what is wrong with
// a name or a role.
func (t *Tokens) Named(r *http.Request) (who Principal, ok bool, err error) {
	t.mu.Lock()
	p := t.proxies
	t.mu.Unlock()
	peer, parseErr := netip.ParseAddrPort(r.RemoteAddr)
	if parseErr != nil || !slices.ContainsFunc(p.at, func(at netip.Prefix) bool { return at.Contains(peer.Addr().Unmap()) }) {
		return who, false, nil
	}
	who = Principal{r.Header.Get(p.user), roleNamed(r.Header.Get(p.role))}
	switch {
	case len(r.Header.Values(p.user)) > 1, len(r.Header.Values(p.role)) > 1:
		return who, false, fmt.Errorf("%s or %s stands twice, so that one may be the client's own: have the proxy replace both headers", p.user, p.role)
	case who.Name == "":
		return who, false, nil
	case !config.ValidName(who.Name):
		return who, false, fmt.Errorf("the proxy names a user in %s whom the audit cannot show: send 1 to 64 letters, digits, or . _ @ -", p.user)
	case who.Role == 0:
		return who, false, fmt.Errorf("the proxy gives %s a role in %s that is none of %s", who.Name, p.role, strings.Join(config.Roles(), ", "))
	}
	return who, true, nil
}

func (t *Tokens) hostNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hosts
}

// A Hash is that of a token's text. It stands for the token where the text must not be kept.
type Hash [sha256.Size]byte

// HashOf returns the hash of a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// Holder returns who holds the token with a hash. It compares all of them in the same time, so that the time of an answer says nothing about any.
func (t *Tokens) Holder(hash Hash) (p Principal, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.holders {
		t.refresh(h)
		if subtle.ConstantTimeCompare(hash[:], h.hash[:]) == 1 && h.valid && h.Role > p.Role {
			p, ok = h.Principal, true
		}
	}
	return p, ok
}

// refresh reads the token's file again if it has changed. A file that is gone or holds no token ends the token.
func (t *Tokens) refresh(h *holder) {
	if h.file == "" {
		return
	}
	info, err := os.Stat(h.file)
	if err == nil && h.seen != nil && os.SameFile(info, h.seen) && info.ModTime().Equal(h.seen.ModTime()) && info.Size() == h.seen.Size() {
		return
	}
	var data []byte
	var readErr error
	if err == nil {
		data, readErr = os.ReadFile(h.file)
		err = readErr
	}
	text := config.TokenIn(data)
	if err == nil && len(text) < config.LeastToken {
		err = fmt.Errorf("it holds fewer than %d characters", config.LeastToken)
	}
	h.valid, h.hash = err == nil, HashOf(text)
	if h.seen = info; readErr != nil {
		h.seen = nil // its rights may change, which shows in nothing else
	}
	if err == nil {
		h.told = false
	} else if !h.told {
		h.told = true
		t.log.Warn("a token is not valid", "name", h.Name, "token_file", h.file, "error", err, "fix", "write the output of openssl rand -hex 24 into it")
	}
}

// Known reports whether a request brings a token that somebody holds.
func (t *Tokens) Known(r *http.Request) bool {
	if _, ok := t.Holder(HashOf(bearer(r.Header.Get("Authorization")))); ok {
		return true
	}
	_, ok, _ := t.Named(r)
	return ok
}

// Scrapes reports whether a request may read the metrics. If they have a token, it must bring that one, or one of the API.
func (t *Tokens) Scrapes(r *http.Request) bool {
	if t.Known(r) {
		return true
	}
	hash := HashOf(bearer(r.Header.Get("Authorization")))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.metrics == nil {
		return true
	}
	t.refresh(t.metrics)
	return subtle.ConstantTimeCompare(hash[:], t.metrics.hash[:]) == 1 && t.metrics.valid
}

// bearer returns the token that a request brings; "" for none.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Names of what an operation's metadata hold, and of the context's value.
const roleKey = "role"

type principalKey struct{}

// stillKey is the key of a func() bool of the context: whether the one who asks still may.
type stillKey struct{}

// still reports whether the one who asks still may: a token may end while its holder watches. For whom this process vouches itself, it asks again.
func still(ctx context.Context) bool {
	may, ok := ctx.Value(stillKey{}).(func() bool)
	return !ok || may()
}

// As returns a context for a request that is made in this process for somebody who is known already: it needs no token.
func As(ctx context.Context, who Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, who)
}

// needs is the metadata of an operation that a role may call.
func needs(r Role) map[string]any { return map[string]any{roleKey: r} }

// asking returns who calls: whom this process vouches for, the holder of the token, or whom a trusted proxy names. An error says why a proxy's word does not
// count. A browser behind such a proxy sends what any page asks it to send, so a call that changes something must come from a page of this server. may tells
// later whether that is still so; nil: it does not end.
func (s *server) asking(ctx huma.Context) (who Principal, may func() bool, ok bool, err error) {
	if who, ok = ctx.Context().Value(principalKey{}).(Principal); ok {
		return who, nil, true, nil
	}
	if header := ctx.Header("Authorization"); header != "" {
		hash := HashOf(bearer(header))
		who, ok = s.Tokens.Holder(hash)
		return who, func() bool { now, ok := s.Tokens.Holder(hash); return ok && now == who }, ok, nil
	}
	r, _ := humago.Unwrap(ctx)
	if who, ok, err = s.Tokens.Named(r); ok && r.Method != http.MethodGet && !SameOrigin(r.Header.Get("Origin"), r.Host) {
		return who, nil, false, errors.New("without a token, a call that changes something needs the header Origin of this server: send a token, or use the console")
	}
	return who, func() bool { now, ok, err := s.Tokens.Named(r); return err == nil && ok && now == who }, ok, err
}

// SameOrigin reports whether a page of this server sent a request: its header Origin names the host that the request is addressed to.
func SameOrigin(origin, host string) bool {
	from, err := url.Parse(origin)
	return err == nil && from.Host != "" && strings.EqualFold(from.Host, host)
}

// authorize lets a call pass if who asks has the operation's role.
func (s *server) authorize(ctx huma.Context, next func(huma.Context)) {
	who, may, ok, err := s.asking(ctx)
	if err != nil {
		s.refuse(ctx, http.StatusForbidden, err.Error())
		return
	}
	if !ok {
		ctx.SetHeader("WWW-Authenticate", `Bearer realm="tailbox"`)
		s.refuse(ctx, http.StatusUnauthorized, "send a token of admin.tokens in the header Authorization: Bearer …")
		return
	}
	if needed, _ := ctx.Operation().Metadata[roleKey].(Role); who.Role < needed || needed == 0 {
		s.refuse(ctx, http.StatusForbidden, fmt.Sprintf("%s has the role %s, and this needs %s: ask for a token with that role", who.Name, who.Role, needed))
		return
	}
	at := ctx.URL()
	texts := []string{at.Path}
	query, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		s.refuse(ctx, http.StatusUnprocessableEntity, "the query of the address cannot be read: "+err.Error())
		return
	}
	for name, values := range query {
		texts = append(append(texts, name), values...)
		if slices.Contains(values, "") {
			s.refuse(ctx, http.StatusUnprocessableEntity, fmt.Sprintf("%s is empty, which would select everything: leave it out, or give it a value", name))
			return
		}
	}
	if slices.ContainsFunc(texts, unwritable) {
		s.refuse(ctx, http.StatusUnprocessableEntity, errUnwritable().Error())
		return
	}
	if slices.ContainsFunc(query["sink"], func(name string) bool { return !store.CanBeSink(name) }) {
		s.refuse(ctx, http.StatusUnprocessableEntity, "sink: "+store.ErrNoSink.Error())
		return
	}
	ctx = huma.WithValue(ctx, principalKey{}, who)
	if may != nil {
		ctx = huma.WithValue(ctx, stillKey{}, may)
	}
	next(ctx)
}

func (s *server) refuse(ctx huma.Context, status int, why string) {
	// The client is gone if this fails.
	_ = huma.WriteErr(s.api, ctx, status, why)
}

// Hosts lets requests pass that are addressed to the address which they came in by, to localhost, or to a configured name. A page of another site
// whose name was pointed at this address is not served (DNS rebinding).
func (t *Tokens) Hosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		local := ""
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			local, _, _ = net.SplitHostPort(at.String())
		}
		same := func(name string) bool { return strings.EqualFold(name, host) }
		if ip := net.ParseIP(host); ip != nil && ip.Equal(net.ParseIP(local)) || same("localhost") || slices.ContainsFunc(t.hostNames(), same) {
			next.ServeHTTP(w, r)
			return
		}
		problem(w, http.StatusMisdirectedRequest, fmt.Sprintf("%q is not a name of this server: list it under admin.hosts", host))
	})
}
