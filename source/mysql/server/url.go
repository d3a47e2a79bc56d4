package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/store/check"
)

// connectTimeout applies where the URL has no connect-timeout.
const connectTimeout = 10 * time.Second

// An Address is a parsed connection URL.
type Address struct {
	network, addr            string // tcp and host:port, or unix and a path
	user, password, Database string
	timeout                  time.Duration
	// tls is nil for none. Preferred: go on without where the server has none.
	tls       *tls.Config
	preferred bool
}

// ParseURL reads a connection URL. Its errors never hold the password.
func ParseURL(text string) (*Address, error) {
	u, err := url.Parse(text)
	if err != nil {
		// What url.Parse says holds all of the text, or a part that may be of the password: one that has a / or # in it.
		return nil, errors.New("parse connection url: it cannot be read; want mysql://user:password@host:port/database, with %2F for /, %3F for ?, %23 for # and %40 for @ in the password")
	}
	if u.Scheme != KindMySQL && u.Scheme != KindMariaDB {
		return nil, fmt.Errorf("parse connection url: its scheme is %q; want mysql://user:password@host:port/database", u.Scheme)
	}
	a := &Address{Database: strings.TrimPrefix(u.Path, "/"), timeout: connectTimeout}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	if a.user == "" {
		return nil, errors.New("parse connection url: it names no user; want mysql://user:password@host:port/database")
	}
	parameters := []string{"connect-timeout", "socket", "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name"}
	query := u.Query()
	for name, values := range query {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("parse connection url: unknown parameter %q; known are %s", name, strings.Join(parameters, ", "))
		}
		if len(values) != 1 {
			return nil, fmt.Errorf("parse connection url: parameter %q is given %d times", name, len(values))
		}
	}
	if text := query.Get("connect-timeout"); text != "" {
		if a.timeout, err = time.ParseDuration(text); err != nil || a.timeout <= 0 {
			return nil, fmt.Errorf("parse connection url: connect-timeout %q is no duration such as 10s", text)
		}
	}
	if socket := query.Get("socket"); socket != "" {
		a.network, a.addr = "unix", socket
	} else {
		host, port := u.Hostname(), u.Port()
		if host == "" {
			host = "127.0.0.1"
		}
		if port == "" {
			port = "3306"
		}
		a.network, a.addr = "tcp", net.JoinHostPort(host, port)
	}
	return a, a.setTLS(query, u.Hostname())
}

// setTLS reads the parameters of TLS. Without any, TLS is used where the server has it, but for connections that do not
// leave the machine.
func (a *Address) setTLS(query url.Values, host string) error {
	mode := query.Get("tls")
	files := query.Get("tls-ca") + query.Get("tls-cert") + query.Get("tls-key") + query.Get("tls-server-name")
	switch {
	case mode == "" && files != "":
		mode = "true"
	case mode == "" && (a.network == "unix" || check.Local(host)):
		mode = "false"
	case mode == "":
		mode = "preferred"
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	switch mode {
	case "false":
		if files != "" {
			return errors.New("parse connection url: tls=false beside tls-ca, tls-cert, tls-key or tls-server-name")
		}
		return nil
	case "true":
	case "skip-verify":
		config.InsecureSkipVerify = true
	case "preferred":
		config.InsecureSkipVerify, a.preferred = true, true
	default:
		return fmt.Errorf("parse connection url: tls=%q; allowed are false, true, skip-verify, preferred", mode)
	}
	if name := query.Get("tls-server-name"); name != "" {
		config.ServerName = name
	}
	if file := query.Get("tls-ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read tls-ca %s: it holds no certificate in PEM", file)
		}
	}
	if cert, key := query.Get("tls-cert"), query.Get("tls-key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("read tls-cert and tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	a.tls = config
	return nil
}

// ValidURL tells what is wrong with a connection URL, for Config.URL and Config.LockURL. The error does not hold the password.
func ValidURL(text string) error {
	_, err := ParseURL(text)
	return err
}

// Transport is how the session travels.
func (a *Address) Transport(key string) check.Transport {
	t := check.Transport{Key: key, Encrypted: a.tls != nil && !a.preferred, Verified: a.tls != nil && !a.tls.InsecureSkipVerify}
	if a.network == "tcp" {
		t.Host, _, _ = net.SplitHostPort(a.addr)
	}
	return t
}
