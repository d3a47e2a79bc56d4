package sink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// SetDefault gives a field of a configuration its default where it has the zero value.
func SetDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Invalid is the error of a configuration's value that is not allowed: key, value, and what is allowed. Values of secret
// keys do not belong in it.
func Invalid(key string, value any, want string) error {
	if s, ok := value.(string); ok {
		return fmt.Errorf("%s: %q is not allowed: want %s", key, s, want)
	}
	return fmt.Errorf("%s: %v is not allowed: want %s", key, value, want)
}

// TLS says how a sink speaks TLS. The zero value trusts the system's certificate authorities and shows no certificate.
type TLS struct {
	// CA is a PEM file with the authorities to trust instead of the system's.
	CA string
	// Cert and Key are PEM files with the client's certificate and its key: both or none. They are read anew at each
	// handshake, so that a renewed certificate needs no restart.
	Cert, Key string
	// ServerName is the name the server's certificate must have, where it is not the host that is connected to.
	ServerName string
	// InsecureSkipVerify accepts any certificate of the server.
	InsecureSkipVerify bool
}

// Validate returns all problems of t, without looking at the files.
func (t *TLS) Validate() error {
	if t == nil || (t.Cert == "") == (t.Key == "") {
		return nil
	}
	if t.Cert == "" {
		return Invalid("tls.cert", "", "a PEM file, because tls.key is set")
	}
	return Invalid("tls.key", "", "a PEM file, because tls.cert is set")
}

// Config reads the files and makes what crypto/tls needs. A nil t gives nil.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	var errs []error
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			errs = append(errs, fmt.Errorf("tls.ca: read certificate authorities: %w", err))
		} else if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			errs = append(errs, Invalid("tls.ca", t.CA, "a PEM file that holds at least one certificate"))
		}
	}
	if t.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return nil, fmt.Errorf("tls.cert, tls.key: read client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			errs = append(errs, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}
