package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// userInfo matches the user name and password of URLs in a text.
var userInfo = regexp.MustCompile(`://[^/?#\s]*@`)

// maskAll masks a whole secret.
func maskAll(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

// hostPort matches a host with a port, or without one; a socket's folder is percent-encoded.
var hostPort = regexp.MustCompile(`^[A-Za-z0-9._%-]*(\[[0-9A-Fa-f:.]+\])?(:[0-9]+)?$`)

// A maskable is a URL in parts, as they stand in its text. A parser would refuse what a driver reads, such as several hosts.
type maskable struct{ scheme, user, host, path, query string }

func splitURL(text string) (u maskable) {
	u.scheme = scheme.FindString(text)
	rest, _, _ := strings.Cut(text[len(u.scheme):], "#")
	rest, u.query, _ = strings.Cut(rest, "?")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		rest, u.path = rest[:i], rest[i+1:]
	}
	u.host = rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		u.user, u.host = rest[:i], rest[i+1:]
	}
	return u
}

// origin is the scheme and the hosts; all of it is masked if it is none.
func (u maskable) origin() string {
	for host := range strings.SplitSeq(u.host, ",") {
		if !hostPort.MatchString(host) {
			return hidden
		}
	}
	if u.user != "" {
		return u.scheme + hidden + "@" + u.host
	}
	return u.scheme + u.host
}

// maskURL leaves of a URL its scheme and hosts. A path or a query may be a token, as in the address of a webhook.
func maskURL(text string) string {
	u := splitURL(text)
	if u.path+u.query == "" {
		return u.origin()
	}
	return u.origin() + "/" + hidden
}

// shownParameters are the parameters of a database's address that are not secret, and that tell how it is reached.
func shownParameters() []string {
	return []string{"host", "hostaddr", "port", "dbname", "sslmode", "target_session_attrs", "connect_timeout", "socket", "tls", "replicaSet", "directConnection"}
}

// maskDatabase leaves of a database's address where the database is and its name.
func maskDatabase(text string) string {
	u := splitURL(text)
	if u.scheme == "" {
		return maskKeywords(text)
	}
	shown := u.origin() + "/" + u.path
	if u.query == "" {
		return shown
	}
	parameters := strings.Split(u.query, "&")
	for i, pair := range parameters {
		if name, _, ok := strings.Cut(pair, "="); !ok || !slices.Contains(shownParameters(), name) {
			parameters[i] = hidden
		}
	}
	return shown + "?" + strings.Join(parameters, "&")
}

// maskKeywords does the same for keywords of libpq's.
func maskKeywords(text string) string {
	pairs, ok := keywords(text)
	if !ok {
		return maskAll(text)
	}
	shown := make([]string, len(pairs))
	for i, p := range pairs {
		if shown[i] = hidden; slices.Contains(shownParameters(), p.name) {
			shown[i] = p.name + "=" + p.value
		}
	}
	return strings.Join(shown, " ")
}

// A keyword is one of libpq's keywords with its value.
type keyword struct{ name, value string }

// keywords reads an address of libpq's keywords; ok is false if it is none.
func keywords(text string) (pairs []keyword, ok bool) {
	const space = " \t\r\n\v\f"
	for rest := strings.TrimLeft(text, space); rest != ""; rest = strings.TrimLeft(rest, space) {
		name, after, found := strings.Cut(rest, "=")
		name = strings.TrimRight(name, space)
		if !found || name == "" || strings.ContainsAny(name, space+`'\`) {
			return nil, false
		}
		after = strings.TrimLeft(after, space)
		quoted := strings.HasPrefix(after, "'")
		if quoted {
			after = after[1:]
		}
		var value strings.Builder
		i, closed := 0, !quoted
		for ; i < len(after); i++ {
			c := after[i]
			if c == '\\' && i+1 < len(after) {
				i++
				value.WriteByte(after[i])
				continue
			}
			if quoted && c == '\'' || !quoted && strings.IndexByte(space, c) >= 0 {
				closed = true
				i++
				break
			}
			value.WriteByte(c)
		}
		if !closed {
			return nil, false
		}
		pairs, rest = append(pairs, keyword{name, value.String()}), after[i:]
	}
	return pairs, true
}

// passwords lists the passwords in the address of a database server.
func passwords(address string) (all []string) {
	u := splitURL(address)
	if u.scheme == "" {
		pairs, _ := keywords(address)
		for _, p := range pairs {
			if secretName.MatchString(p.name) {
				all = append(all, p.value)
			}
		}
		return all
	}
	add := func(text string) {
		all = append(all, text)
		if plain, err := url.PathUnescape(text); err == nil && plain != text {
			all = append(all, plain)
		}
	}
	if _, password, ok := strings.Cut(u.user, ":"); ok {
		add(password)
	}
	for pair := range strings.SplitSeq(u.query, "&") {
		if _, value, _ := strings.Cut(pair, "="); secretName.MatchString(pair) {
			add(value)
		}
	}
	return all
}
