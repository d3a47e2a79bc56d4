package nats_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/test/servers"
)

// TestCredentials logs in with a .creds file at a server whose users an operator's accounts sign.
func TestCredentials(t *testing.T) {
	t.Parallel()
	operator, account, user, stranger := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateUser), pair(t, nkeys.CreateUser)
	server := servers.NATS(t, servers.NATSOptions{Bare: true, Lines: []string{
		"operator: " + claim(t, operator, operator, "operator", nil),
		"resolver: MEMORY",
		fmt.Sprintf("resolver_preload: { %s: %s }", public(t, account), claim(t, operator, account, "account",
			map[string]any{"limits": map[string]any{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1}})),
	}})
	creds := func(signer, of nkeys.KeyPair) string {
		seed, err := of.Seed()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
			claim(t, signer, of, "user", map[string]any{"subs": -1, "data": -1, "payload": -1}), seed)
	}
	// The server has no JetStream: what it says to that shows that it let us in.
	problems := newSink(t, nats.Config{Servers: []string{server.URL()}, Credentials: creds(account, user)}).Check(t.Context())
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "JetStream") || strings.Contains(problems[0].Error(), "log in") {
		t.Errorf("check: %v", problems)
	}
	wrong := newSink(t, nats.Config{Servers: []string{server.URL()}, Credentials: creds(pair(t, nkeys.CreateAccount), stranger)})
	err := one(t, wrong, delivery("a", "1"))
	wantClass(t, err, sink.ClassMisconfigured, "log in")
	if strings.Contains(err.Error(), "SU") {
		t.Errorf("an error tells a seed: %v", err)
	}
	for key, c := range map[string]nats.Config{"creds": {Credentials: "secret"}, "nkey": {NKey: "secret"}, "username": {Username: "u", Token: "secret"},
		"servers": {Servers: []string{"nats://u:secret@host"}}, "msg_id": {MsgID: "secre"}, "subjects": {Subjects: []string{"a.*"}}, "stream": {Stream: "a.b"}} {
		if c.Servers == nil {
			c.Servers = []string{"host"}
		}
		if _, err := nats.New(c); err == nil || !strings.HasPrefix(err.Error(), key+": ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	p, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func public(t *testing.T, p nkeys.KeyPair) string {
	t.Helper()
	text, err := p.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claim is a JWT by which issuer says who subject is.
func claim(t *testing.T, issuer, subject nkeys.KeyPair, kind string, about map[string]any) string {
	t.Helper()
	if about == nil {
		about = map[string]any{}
	}
	about["type"], about["version"] = kind, 2
	claims := map[string]any{"iat": time.Now().Unix(), "iss": public(t, issuer), "name": kind, "sub": public(t, subject), "nats": about}
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	sum := sha256.Sum256([]byte(encode(claims)))
	claims["jti"] = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	text := encode(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." + encode(claims)
	signature, err := issuer.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
