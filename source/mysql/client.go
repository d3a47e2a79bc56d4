package mysql

import (
	"context"
	"errors"
	"fmt"
)

// A Client is a connection for SQL of those who are no part of the relay, such as the demo. It is used by one goroutine at a time.
type Client struct{ session *session }

// Connect opens a connection to a server of the kind (KindMySQL or KindMariaDB). The URL is as Config.URL, and need not name a
// database. Literals have no backslash escapes.
func Connect(ctx context.Context, kind, url string) (*Client, error) {
	s, err := (&Config{Kind: kind}).connect(ctx, url)
	if err != nil {
		return nil, err
	}
	return &Client{s}, nil
}

// Exec runs statements one after the other. The first error ends it.
func (c *Client) Exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := c.session.exec(ctx, sql); err != nil {
			return fmt.Errorf("execute %.60q: %w", sql, err)
		}
	}
	return nil
}

// Transact runs statements in one transaction.
func (c *Client) Transact(ctx context.Context, statements ...string) error {
	if err := c.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	if err := c.Exec(ctx, statements...); err != nil {
		return errors.Join(err, c.Exec(ctx, "ROLLBACK"))
	}
	return c.Exec(ctx, "COMMIT")
}

// Texts runs a query and returns its rows as text; NULL is the empty text.
func (c *Client) Texts(ctx context.Context, sql string) ([][]string, error) {
	rows, err := c.session.texts(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("execute %.60q: %w", sql, err)
	}
	return rows, nil
}

// Close ends the connection, even where ctx is done, in bounded time.
func (c *Client) Close(ctx context.Context) error { return c.session.close(ctx) }

// Denied tells whether an error is that the account lacks a privilege.
func Denied(err error) bool {
	switch errorCode(err) {
	case codeNeedPrivilege, codeAccessDenied, codeDatabaseDenied:
		return true
	}
	return false
}

// codeDatabaseDenied is ER_DBACCESS_DENIED_ERROR.
const codeDatabaseDenied = 1044

// Quote quotes a text for SQL of a Client.
func Quote(text string) string { return quoteLiteral(text) }
