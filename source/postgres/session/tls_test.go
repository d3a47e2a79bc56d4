//go:build unix

package session_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// certificate makes a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: privateDER})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17")
	r := pgtest.NewRig(t, pg, pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	cert, key := certificate(t)
	owner, err := os.Stat(pg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"server.crt": cert, "server.key": key} {
		file := filepath.Join(pg.DataDir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := pgtest.ChownLike(file, owner); err != nil {
			t.Fatal(err)
		}
	}
	r.Exec("ALTER SYSTEM SET ssl = on")
	r.Exec("SELECT pg_reload_conf()")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	plain, err := url.Parse(pg.URL(r.DB))
	if err != nil {
		t.Fatal(err)
	}
	plain.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {ca}}.Encode()
	r.Cfg.URL = plain.String()
	r.Src = stream.New(r.Cfg)
	r.Until("ssl", func() bool { _, err := r.Src.Examine(t.Context(), "", ""); return err == nil })
	resume := r.Establish()
	for round := range 3 {
		x := r.Run(source.Start{From: resume})
		pgtest.InsertEvents(r, 1+round*5000, 5000)
		_, resume = x.Messages(5000)
		if got := r.Text("SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_replication USING (pid) WHERE application_name = $1", session.AppName(r.Cfg.Pipeline)); got != "true" {
			t.Errorf("the stream is encrypted: %q", got)
		}
		r.Src.Confirm(resume)
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		r.Until("slot released", func() bool {
			return r.Text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot) == "false"
		})
		if got := r.Confirmed().String(); got != string(resume) {
			t.Errorf("confirmed_flush_lsn %s, want %s", got, resume)
		}
	}
	if err := os.WriteFile(ca, []byte(strings.Replace(string(cert), "M", "N", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Src.Examine(t.Context(), "", ""); err == nil {
		t.Error("a server with an unknown certificate was trusted")
	}
}
