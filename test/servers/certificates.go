package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are the PEM files of a certificate authority made for one
// server, and of what it signed: a certificate for "localhost" and 127.0.0.1,
// and one for a client. All are empty for a server that we did not start.
type Certificates struct {
	CA                        string // the authority's certificate
	ServerCert, ServerKey     string
	ClientCert, ClientKey     string
	serverBundle, clientTrust string // the same in Kafka's arrangement
}

// makeCertificates writes a new authority and its certificates into dir.
func makeCertificates(dir string) (Certificates, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	c := Certificates{
		CA: in("ca.pem"), ServerCert: in("server.pem"), ServerKey: in("server.key"),
		ClientCert: in("client.pem"), ClientKey: in("client.key"),
		serverBundle: in("server-bundle.pem"), clientTrust: in("ca.pem"),
	}
	authority, err := newIdentity("tailbox test authority", nil)
	if err != nil {
		return Certificates{}, err
	}
	server, err := newIdentity("localhost", authority)
	if err != nil {
		return Certificates{}, err
	}
	client, err := newIdentity("relay", authority)
	if err != nil {
		return Certificates{}, err
	}
	for path, text := range map[string][]byte{
		c.CA: authority.cert, c.ServerCert: server.cert, c.ServerKey: server.key,
		c.ClientCert: client.cert, c.ClientKey: client.key,
		c.serverBundle: append(append([]byte{}, server.key...), server.cert...),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return Certificates{}, fmt.Errorf("write certificate: %w", err)
		}
		if err := own(path); err != nil {
			return Certificates{}, err
		}
	}
	return c, nil
}

// kafkaProperties points Kafka's listeners with TLS to the files.
func (c Certificates) kafkaProperties() string {
	return "\nssl.keystore.type=PEM\nssl.keystore.location=" + c.serverBundle +
		"\nssl.truststore.type=PEM\nssl.truststore.location=" + c.clientTrust +
		"\nlistener.name.mutualtls.ssl.client.auth=required\n"
}

// identity is a key and its certificate, as PEM and parsed.
type identity struct {
	key, cert []byte
	signer    *ecdsa.PrivateKey
	parsed    *x509.Certificate
}

// newIdentity makes a key and has authority sign its certificate; without one
// it makes an authority.
func newIdentity(name string, authority *identity) (*identity, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key for %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, fmt.Errorf("make serial number for %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
	}
	id := &identity{signer: signer, parsed: template}
	if authority == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		authority = id
	} else {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		template.DNSNames, template.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.parsed, signer.Public(), authority.signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", name, err)
	}
	if id.parsed, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parse certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, fmt.Errorf("encode key of %s: %w", name, err)
	}
	id.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	id.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return id, nil
}
