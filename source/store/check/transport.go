package check

import (
	"fmt"
	"net"
	"strings"
)

// A Transport is how a connection string lets a session travel to one host.
type Transport struct {
	// Key is where the string is configured, such as source.url.
	Key, Host string
	// Encrypted: the session uses TLS, or there is none. Verified: it also checks the server's certificate.
	Encrypted, Verified bool
}

// Warn returns a warning if somebody on the way could read or change what is sent, the password included; nil otherwise. Fix protects it.
func (t Transport) Warn(fix string) *Finding {
	if t.Verified || Local(t.Host) {
		return nil
	}
	what := "without TLS, or may do so: whoever is on the way can read and change all of it, and may get the password"
	if t.Encrypted {
		what = "by TLS, but nothing checks that it is the right server: whoever is on the way can pretend to be it"
	}
	return &Finding{Level: Warning, Fix: fix, What: fmt.Sprintf("%s goes to the database at %s %s", t.Key, t.Host, what)}
}

// Local reports whether a host is this machine, named so that nobody else can answer.
func Local(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // or a Unix socket
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
