package kafka

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"

	"github.com/tailbox/tailbox/sink"
)

// mechanisms are the ways to authenticate, by the configuration's name.
func mechanisms() map[string]func(SASL) exchange {
	return map[string]func(SASL) exchange{
		"plain":         plain,
		"scram-sha-256": func(s SASL) exchange { return scram(s, sha256.New) },
		"scram-sha-512": func(s SASL) exchange { return scram(s, sha512.New) },
	}
}

// exchange answers the server's last message with the next one of the client; the first answers nil. done says that
// the server has to say nothing more.
type exchange func(challenge []byte) (answer []byte, done bool, err error)

// authenticate runs the exchange on a new connection. What fails in it is for the operator to fix, unless the
// connection itself failed.
func authenticate(ctx context.Context, c *conn, s SASL) error {
	mechanism := strings.ToUpper(s.Mechanism)
	answer, err := c.roundTrip(ctx, &saslhandshake.Request{Mechanism: mechanism})
	if err != nil {
		return err
	}
	if r := answer.(*saslhandshake.Response); r.ErrorCode != 0 {
		return sink.Misconfigured(fmt.Errorf("authenticate at %s: %w: set sasl.mechanism to one of %s", c.address,
			kafkago.Error(r.ErrorCode), sink.OneLine(strings.ToLower(strings.Join(r.Mechanisms, ", ")))))
	}
	next := mechanisms()[strings.ToLower(s.Mechanism)](s)
	var challenge []byte
	for {
		step, done, err := next(challenge)
		if err != nil {
			return sink.Misconfigured(fmt.Errorf("authenticate at %s by %s: %w", c.address, mechanism, err))
		}
		if done && step == nil {
			return nil
		}
		answer, err := c.roundTrip(ctx, &saslauthenticate.Request{AuthBytes: step})
		if err != nil {
			return err
		}
		r := answer.(*saslauthenticate.Response)
		if r.ErrorCode != 0 {
			return sink.Misconfigured(fmt.Errorf("authenticate at %s by %s as %s: %w: check sasl.username and sasl.password", c.address,
				mechanism, s.Username, kafkaError(r.ErrorCode, r.ErrorMessage)))
		}
		c.expireAfter(r.SessionLifetimeMs)
		challenge = r.AuthBytes
		if challenge == nil {
			challenge = []byte{}
		}
	}
}

// plain is RFC 4616.
func plain(s SASL) exchange {
	return func(challenge []byte) ([]byte, bool, error) {
		if challenge != nil {
			return nil, true, nil
		}
		return []byte("\x00" + s.Username + "\x00" + s.Password), false, nil
	}
}

// maxIterations bounds the work that a server may ask of us. RFC 5802 wants minIterations: with less, whoever stands in for the
// broker gets a proof from which the password is found soon.
const minIterations, maxIterations = 4096, 1_000_000

// scram is RFC 5802 without channel binding. Like Kafka itself it takes the password's bytes as they are.
func scram(s SASL, newHash func() hash.Hash) exchange {
	nonce := rand.Text()
	first := "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.Username) + ",r=" + nonce
	var signature []byte
	step := 0
	return func(challenge []byte) ([]byte, bool, error) {
		step++
		switch step {
		case 1:
			return []byte("n,," + first), false, nil
		case 2:
			answer, serverSignature, err := scramProof(s.Password, first, nonce, string(challenge), newHash)
			signature = serverSignature
			return answer, false, err
		}
		verifier, ok := bytes.CutPrefix(challenge, []byte("v="))
		got, err := base64.StdEncoding.DecodeString(string(verifier))
		if !ok || err != nil || subtle.ConstantTimeCompare(got, signature) != 1 {
			return nil, true, errors.New("the broker does not know the password either: it may not be the one it says it is")
		}
		return nil, true, nil
	}
}

// scramProof answers the server's first message.
func scramProof(password, first, nonce, challenge string, newHash func() hash.Hash) (answer, serverSignature []byte, err error) {
	fields := make(map[string]string)
	for field := range strings.SplitSeq(challenge, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	salt, saltErr := base64.StdEncoding.DecodeString(fields["s"])
	iterations, countErr := strconv.Atoi(fields["i"])
	if saltErr != nil || countErr != nil || !strings.HasPrefix(fields["r"], nonce) || len(fields["r"]) == len(nonce) {
		return nil, nil, errors.New("the broker's challenge makes no sense")
	}
	if iterations < minIterations || iterations > maxIterations {
		return nil, nil, fmt.Errorf("the broker asks for %d iterations of the hash: the relay does %d to %d: "+
			"create the user's credentials with iterations=%d or more", iterations, minIterations, maxIterations, minIterations)
	}
	salted, err := pbkdf2.Key(newHash, password, salt, iterations, newHash().Size())
	if err != nil {
		return nil, nil, fmt.Errorf("derive key: %w", err)
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(newHash, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	last := "c=biws,r=" + fields["r"]
	all := first + "," + challenge + "," + last
	clientKey := mac(salted, "Client Key")
	h := newHash()
	h.Write(clientKey)
	proof := mac(h.Sum(nil), all)
	subtle.XORBytes(proof, proof, clientKey)
	return []byte(last + ",p=" + base64.StdEncoding.EncodeToString(proof)), mac(mac(salted, "Server Key"), all), nil
}
