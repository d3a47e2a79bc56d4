package hostile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/test/e2e"
)

// mySQLTable is a table of MySQL or MariaDB.
type mySQLTable struct {
	kind string
	bed  *e2e.Bed
	conn *client.Conn
}

func (t *mySQLTable) options() e2e.Options {
	return e2e.Options{Kind: t.kind, Tables: "\n    - {name: events, shape: tailbox}\n",
		Schema: "CREATE TABLE events (id VARBINARY(3000) PRIMARY KEY, type LONGTEXT, topic LONGTEXT, message_group LONGTEXT, `key` LONGTEXT, tenant LONGTEXT, " +
			"headers JSON, payload LONGBLOB, status VARCHAR(32) NOT NULL DEFAULT 'pending', attempts INT, next_attempt_at TIMESTAMP(6) NULL, last_error TEXT, " +
			"delivered_at TIMESTAMP(6) NULL) ENGINE=InnoDB"}
}

func (t *mySQLTable) open(tb testing.TB, b *e2e.Bed) {
	tb.Helper()
	t.bed = b
	tb.Cleanup(func() {
		if t.conn != nil {
			_ = t.conn.Close() // whatever state it is in
		}
	})
}

func (t *mySQLTable) insert(ctx context.Context, row *Row) error {
	if t.conn == nil {
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), time.Now().Add(24*time.Hour)) // of the connection's every use
		defer cancel()
		conn, err := t.bed.My.Connect(ctx, t.bed.DB)
		if err != nil {
			return err
		}
		t.conn = conn
	}
	var headers any
	if row.Headers != nil {
		headers = string(row.Headers)
	}
	_, err := t.conn.Execute("INSERT INTO events (id, type, topic, message_group, `key`, tenant, headers, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		row.column("id"), row.column("type"), row.column("topic"), row.column("group"), row.column("key"), row.column("tenant"), headers, row.Payload)
	var answer *gomysql.MyError
	if err != nil && !errors.As(err, &answer) {
		_ = t.conn.Close() // a packet that is too large ends it
		t.conn = nil
	}
	return err
}

func (t *mySQLTable) parked(ctx context.Context) ([]parked, error) {
	rows, err := t.bed.RowsMySQL(ctx, "SELECT message_id, message_group, state, error_class, last_error FROM tailbox_parked")
	if err != nil {
		return nil, err
	}
	list := make([]parked, len(rows))
	for i, r := range rows {
		list[i] = parked{r[0], r[1], r[2], r[3], r[4]}
	}
	return list, nil
}
