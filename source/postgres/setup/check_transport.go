package setup

import (
	"context"
	"crypto/tls"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store/check"
)

// transport warns if a session may go without TLS, or without a check of the server's certificate.
func (c *checker) transport() {
	told := map[string]bool{}
	for i, url := range []string{c.cfg.URL, c.cfg.LockURL} {
		if url == "" || i > 0 && url == c.cfg.URL {
			continue
		}
		key := [...]string{"source.url", "source.lock_url"}[i]
		for _, t := range transports(key, url) {
			// If several transports are tried for one host, the least protected counts: an attacker can force it.
			if f := t.Warn("sslmode=verify-full, with sslrootcert if the authority is your own, in " + key); f != nil && !told[key+t.Host] {
				told[key+t.Host] = true
				c.Findings = append(c.Findings, *f)
			}
		}
	}
}

// transports are all ways that a session may go, the least protected first.
func transports(key, url string) (list []check.Transport) {
	cc, err := session.ParseConnection(url)
	if err != nil {
		return nil // found elsewhere
	}
	add := func(host string, config *tls.Config) {
		t := check.Transport{Key: key, Host: host, Encrypted: config != nil}
		t.Verified = config != nil && (!config.InsecureSkipVerify || config.VerifyPeerCertificate != nil || config.VerifyConnection != nil)
		if t.Encrypted {
			list = append(list, t)
		} else {
			list = append([]check.Transport{t}, list...)
		}
	}
	add(cc.Host, cc.TLSConfig)
	for _, f := range cc.Fallbacks {
		add(f.Host, f.TLSConfig)
	}
	return list
}

// emitters warns if everybody may write messages without a table.
func (c *checker) emitters(ctx context.Context) error {
	if c.cfg.Messages == "" {
		return nil
	}
	rows, err := c.conn.Query(ctx, `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname = 'pg_logical_emit_message' AND p.pronamespace = 'pg_catalog'::regnamespace
		AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1`)
	if err != nil {
		return err
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(open) == 0 {
		return err
	}
	functions := strings.Join(open, ", ")
	c.Add(check.Warning, "REVOKE EXECUTE ON FUNCTION "+functions+" FROM PUBLIC; GRANT EXECUTE ON FUNCTION "+functions+" TO the roles that write messages",
		"every login of the database may write messages by pg_logical_emit_message, with any prefix, and source.messages has them delivered")
	return nil
}
