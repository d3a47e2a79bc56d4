package admin

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// TLS returns the configuration of a server with the certificate that two PEM files hold. New connections get a new certificate once the files have
// changed; while these do not fit each other, the one before is used.
func TLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.changed()
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("serve metrics and health: admin.tls: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// A certificate is that of two files.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	mu                sync.Mutex
	current           *tls.Certificate
	seen              [2]os.FileInfo // the files as they were when they were read
	failed            bool           // the files as they were seen could not be used, and the log says so
}

// get implements tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.changed(); other || c.failed { // a file that could not be read may have got other rights, which shows in nothing else
		told := c.failed && !other
		err := c.read()
		if c.failed = err != nil; c.failed && !told {
			c.log.Warn("the new certificate cannot be used, so the one before stays", "cert_file", c.certFile, "key_file", c.keyFile, "error", err,
				"fix", "write a certificate and its key, in PEM, into the files of admin.tls")
		}
	}
	return c.current, nil
}

// changed reports whether a file is another than when it was looked at last. A file that is gone is about to be replaced.
func (c *certificate) changed() (other bool) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		if old := c.seen[i]; old == nil || !os.SameFile(old, info) || !old.ModTime().Equal(info.ModTime()) || old.Size() != info.Size() {
			c.seen[i], other = info, true
		}
	}
	return other
}

func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil {
		c.current = &pair
	}
	return err
}
