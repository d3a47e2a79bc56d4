package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
)

// A place is a database of a server. That of a standby is the same as its primary's.
type place struct{ system, database string }

func placeOf(ctx context.Context, conn *pgx.Conn) (p place, err error) {
	// By the simple protocol: a pooler may hand prepared statements on to others, and settings that do not end with the transaction.
	rows, err := Query(ctx, conn.PgConn(), "BEGIN; "+PinPathLocal+"; SELECT system_identifier, pg_catalog.current_database() FROM pg_catalog.pg_control_system(); COMMIT")
	if err != nil {
		return p, fmt.Errorf("look which database of which server it is: %w", err)
	}
	return place{rows[0][0], rows[0][1]}, nil
}

func (p place) String() string { return fmt.Sprintf("database %s of server %s", p.database, p.system) }

// Elsewhere says that the session at source.lock_url is not in the database that the session at source.url is in; "" if it is.
// The log of one would be read by the checkpoint in the other.
func Elsewhere(ctx context.Context, url, lock *pgx.Conn) (what string, err error) {
	read, err := placeOf(ctx, url)
	if err != nil {
		return "", err
	}
	held, err := placeOf(ctx, lock)
	if err != nil || held == read {
		return "", err
	}
	return fmt.Sprintf("source.lock_url leads to %s, and source.url to %s", held, read), nil
}

// ElsewhereFix is for what Elsewhere finds.
const ElsewhereFix = "let source.lock_url lead to the database of source.url, past the pooler"

// OnePlace refuses a source.lock_url that leads elsewhere. Conn is a session that is open there already.
func (c *Config) OnePlace(ctx context.Context, conn *pgx.Conn) (err error) {
	if c.LockURL == "" || c.LockURL == c.URL {
		return nil
	}
	read, err := c.Dial(ctx, c.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Close(ctx, read)) }()
	what, err := Elsewhere(ctx, read, conn)
	if err == nil && what != "" {
		err = fmt.Errorf("%s: %s: %w", what, ElsewhereFix, source.ErrStop)
	}
	return err
}
