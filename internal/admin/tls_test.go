package admin

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pair makes a certificate with a number, and its key, in PEM.
func pair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: inner})
}

// A certificate that is renewed is used at once. While certificate and key do not fit each other, or one is gone, the one before stays.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	write := func(name string, text []byte) {
		t.Helper()
		next := name + ".next" // as who renews it does, so that nobody reads half of it
		if err := os.WriteFile(next, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, name); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if _, err := TLS(certFile, keyFile, logger); err == nil || !strings.Contains(err.Error(), "admin.tls") {
		t.Errorf("without files: %v", err)
	}
	cert, key := pair(t, 1)
	write(certFile, cert)
	write(keyFile, key)
	secure, err := TLS(certFile, keyFile, logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	s, err := Listen(ctx, Config{Listen: "127.0.0.1:0", TLS: secure, Gatherer: prometheus.NewRegistry(), Ready: func() (bool, string, string) { return true, "tailing", "" }, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	serial := func() int64 {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // it has no authority
		resp, err := client.Get("https://" + s.Addr() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("the first certificate: %d", got)
	}
	cert, key = pair(t, 2)
	write(certFile, cert)
	if got := serial(); got != 1 || !strings.Contains(log.String(), "the one before stays") {
		t.Errorf("half renewed: %d, log %s", got, log.String())
	}
	write(keyFile, key)
	if got := serial(); got != 2 {
		t.Errorf("renewed: %d", got)
	}
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("the file is gone: %d", got)
	}
	if resp, err := http.Get("http://" + s.Addr() + "/metrics"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("metrics without TLS: %s", resp.Status)
		}
	}
}
