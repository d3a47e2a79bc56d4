package config

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Admin is the section admin.
type Admin struct {
	// Listen is an address, or "" for none.
	Listen string `fixed:"listen"`
	// Token is one admin's, of any length; "" for none. An address that is not loopback needs it, or Tokens.
	Token string `live:"token,token_file"`
	// Tokens are those of the HTTP API by name. Without Token and Tokens there is no API.
	Tokens []Token `live:"tokens"`
	// MetricsTokenFile holds the token that /metrics asks for; "" if everyone may read them.
	MetricsTokenFile string `live:"metrics_token_file"`
	// Send: the API writes messages into the outbox for admins, so that the relay's account needs INSERT.
	Send bool `fixed:"send"`
	// Hosts are further names by which clients may address the API, beside the address itself and localhost.
	Hosts []string `live:"hosts"`
	// URL is where people reach the console, for links; "" if it is not known.
	URL string `live:"url"`
	// CertFile and KeyFile hold a certificate and its key, in PEM; "" for no TLS.
	CertFile string `fixed:"tls"`
	KeyFile  string `fixed:"tls"`
	// Proxies are the addresses of peers that say in the headers UserHeader and RoleHeader who asks; none: nobody may say so.
	Proxies    []netip.Prefix `live:"trusted_proxies"`
	UserHeader string         `live:"user_header"`
	RoleHeader string         `live:"role_header"`
}

// A Token lets its holder use the HTTP API.
type Token struct {
	// Name is what the audit calls the holder.
	Name string
	// Role is one of Roles.
	Role string
	// File holds the token, of at least LeastToken characters.
	File string
}

// LeastToken is the length of a token in characters, at least.
const LeastToken = 20

// Roles returns the roles of a token, each with what those before it may do.
func Roles() []string { return []string{"viewer", "auditor", "operator", "admin"} }

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// ValidName reports whether the audit can show a name: 1 to 64 letters, digits, or . _ @ -.
func ValidName(name string) bool { return tokenName.MatchString(name) }

// HasAPI reports whether somebody may use the HTTP API and the console: without, there are none.
func (a *Admin) HasAPI() bool { return a.Token != "" || len(a.Tokens)+len(a.Proxies) > 0 }

func readAdmin(s *Section) Admin {
	defer s.Done()
	a := Admin{Listen: s.String("listen", defaultListen), Token: s.Secret("token"), Hosts: s.Strings("hosts"), URL: readConsoleURL(s)}
	readTokens(s, &a)
	for _, host := range a.Hosts {
		if net.ParseIP(host) == nil && strings.ContainsAny(host, "/: ") {
			s.Add("hosts", host, "must be names or addresses of hosts, without scheme and port")
		}
	}
	if t := s.Section("tls"); t != nil {
		a.CertFile, a.KeyFile = t.readCertificate()
	}
	a.readProxies(s)
	if a.Send = s.Bool("send", false); a.Send && !a.HasAPI() {
		s.Add("send", "true", "has the HTTP API write messages, and without admin.tokens there is none: set them, or leave send out")
	}
	if a.Listen == "off" {
		a.Listen = ""
		return a
	}
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		s.Add("listen", a.Listen, "must be host:port, or off")
		return a
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		s.Add("listen", a.Listen, "must have a port from 1 to 65535, or 0 for any that is free")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && a.Token == "" && len(a.Tokens)+len(a.Proxies) == 0 {
		s.Add("listen", a.Listen, "is not a loopback address, so admin.tokens or admin.token must be set: only who holds a token hears from /readyz why the relay is not ready")
	}
	if placeholder.MatchString(a.Token) {
		s.Add("token", "", "is a placeholder of an example, which everybody knows: set a token of your own, such as the output of openssl rand -hex 24")
	}
	return a
}

// readProxies reads who may say who asks.
func (a *Admin) readProxies(s *Section) {
	a.UserHeader, a.RoleHeader = s.String("user_header", ""), s.String("role_header", "")
	for _, text := range s.Strings("trusted_proxies") {
		p, err := netip.ParsePrefix(text)
		if one, bad := netip.ParseAddr(text); bad == nil {
			p, err = one.Prefix(one.BitLen())
		}
		if err != nil {
			s.Add("trusted_proxies", text, "must be an address such as 10.0.0.7, or a range such as 10.0.0.0/24")
			continue
		}
		a.Proxies = append(a.Proxies, p.Masked())
	}
	if some := s.Has("trusted_proxies"); some != (a.UserHeader != "") || some != (a.RoleHeader != "") {
		s.AddAt([]string{"trusted_proxies"}, "goes with user_header and role_header: set all three, or none")
	}
}

// readCertificate reads admin.tls. The certificate is not kept: its files are read again when they change.
func (s *Section) readCertificate() (certFile, keyFile string) {
	defer s.Done()
	certFile, keyFile = s.Path("cert_file"), s.Path("key_file")
	if certFile == "" || keyFile == "" {
		s.AddAt(nil, "needs cert_file and key_file: a certificate with the chain behind it, and its key, both in PEM")
		return "", ""
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		s.Add("cert_file", certFile, "cannot be used with key_file: "+err.Error())
	}
	return certFile, keyFile
}

// readTokens reads the tokens that stand in files. Their texts are not kept: the files are read again when they change.
func readTokens(s *Section, a *Admin) {
	names, holders := map[string]bool{"admin": true}, map[string]string{a.Token: "admin.token"} // whose holder is admin
	for _, one := range s.Sections("tokens") {
		if one == nil {
			continue
		}
		t := Token{Name: one.String("name", ""), Role: one.Choice("role", "", Roles()...), File: one.Path("token_file")}
		switch {
		case !ValidName(t.Name):
			one.Add("name", t.Name, "must be 1 to 64 letters, digits, or . _ @ -: the audit calls the token's holder so")
		case names[t.Name]:
			one.Add("name", t.Name, "stands twice: the audit could not tell the two apart (admin is the holder of admin.token)")
		}
		names[t.Name] = true
		if t.Role == "" && !one.Has("role") {
			one.Add("role", "", "is missing", Roles()...)
		}
		one.checkToken("token_file", t.File, t.Name, holders)
		one.Done()
		a.Tokens = append(a.Tokens, t)
	}
	if a.MetricsTokenFile = s.Path("metrics_token_file"); s.Has("metrics_token_file") {
		s.checkToken("metrics_token_file", a.MetricsTokenFile, "the metrics", holders)
	}
}

// checkToken reads the token that a file holds, and adds it to the holders of tokens.
func (s *Section) checkToken(key, file, holder string, holders map[string]string) {
	text, ok := s.tokenText(key, file)
	if !ok {
		return
	}
	if other, taken := holders[text]; taken {
		s.Add(key, file, "holds the same token as that of "+other+": give each holder its own")
	}
	holders[text] = holder
}

// tokenText reads the token that a file holds.
func (s *Section) tokenText(key, name string) (text string, ok bool) {
	if name == "" {
		s.Add(key, "", "is missing: name the file that holds the token, such as the output of openssl rand -hex 24")
		return "", false
	}
	data, err := os.ReadFile(name)
	if err != nil {
		s.Add(key, name, "cannot be read: "+err.Error()+": correct the path, or let the user that runs tailbox read the file")
		return "", false
	}
	text = TokenIn(data)
	s.Conceal(text)
	if len(text) < LeastToken {
		s.Add(key, name, "holds a token of "+strconv.Itoa(len(text))+" characters, and one of fewer than "+strconv.Itoa(LeastToken)+
			" can be guessed: write the output of openssl rand -hex 24 into it")
		return "", false
	}
	return text, true
}

// TokenIn returns the token in what a token's file holds: white space around it does not count.
func TokenIn(data []byte) string { return strings.TrimSpace(string(data)) }
