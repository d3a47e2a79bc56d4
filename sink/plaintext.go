package sink

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Plaintext says that the secret under a key goes to another machine in the clear. addresses are host:port, or URLs, of
// connections that are not encrypted. It is nil if all are of this machine. A sink asks when it has a secret, no TLS, and the
// operator did not allow it, and returns the error from its Check.
func Plaintext(key string, addresses ...string) error {
	for _, address := range addresses {
		where, host := address, address
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			where, host = u.Scheme+"://"+u.Host, u.Hostname() // a URL may hold secrets
		} else if name, _, err := net.SplitHostPort(address); err == nil {
			host = name
		}
		if !Loopback(host) {
			return fmt.Errorf("%s goes to %s without encryption, and whoever listens can use it: use TLS, or set allow_plaintext: true if you trust "+
				"the network. A later version will refuse this", key, where)
		}
	}
	return nil
}

// AppendProblem appends an error to those of a Check, if there is one.
func AppendProblem(problems []error, err error) []error {
	if err == nil {
		return problems
	}
	return append(problems, err)
}
