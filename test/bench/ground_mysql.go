package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/test/servers"
)

// statementRows is how many rows one statement inserts at most.
const statementRows = 500

// connectionTime bounds the life of a connection of ours.
const connectionTime = time.Hour

type myServer struct {
	my   *servers.My
	kind string
}

func startMySQL(kind string) (server, error) {
	my, err := servers.StartMySQL(kind, servers.WithSetting("innodb_buffer_pool_size", "512M"))
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s %s\n", kind, my.Version)
	return &myServer{my, kind}, nil
}

func (s *myServer) close() error { return s.my.Close() }

// locked: ER_LOCK_WAIT_TIMEOUT and ER_LOCK_DEADLOCK.
func (s *myServer) locked(err error) bool {
	var e *mysql.MyError
	return errors.As(err, &e) && (e.Code == 1205 || e.Code == 1213)
}

func (s *myServer) newGround(ctx context.Context, name string) (ground, error) {
	if err := s.my.Exec(ctx, "", "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, err
	}
	g := &myGround{s: s, name: name}
	var err error
	g.conn, err = g.connect(ctx)
	return g, err
}

// A myGround is a database of a MySQL or MariaDB server.
type myGround struct {
	s    *myServer
	name string
	conn *client.Conn
}

func (g *myGround) connect(ctx context.Context) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectionTime)
	defer cancel()
	return g.s.my.Connect(ctx, g.name)
}

func (g *myGround) source() string {
	return fmt.Sprintf("  kind: %s\n  url: %q", g.s.kind, g.s.my.URL(g.name))
}

func (g *myGround) bare(ctx context.Context) ([]string, error) {
	at, err := g.end(ctx)
	return []string{"bare-mysql", "-kind", g.s.kind, "-address", g.s.my.Addr(), "-database", g.name, "-from", at}, err
}

func (g *myGround) end(context.Context) (string, error) {
	query := "SHOW BINARY LOG STATUS"
	if g.s.kind == kindMariaDB {
		query = "SHOW MASTER STATUS"
	}
	r, err := g.conn.Execute(query)
	if err != nil {
		return "", err
	}
	file, err := r.GetString(0, 0)
	if err != nil {
		return "", err
	}
	pos, err := r.GetString(0, 1)
	return file + ":" + pos, err
}

func (g *myGround) settled(_ context.Context, pipeline, end string) (bool, error) {
	r, err := g.conn.Execute("SELECT resume FROM tailbox_checkpoint WHERE pipeline = '" + pipeline + "'")
	if err != nil || r.RowNumber() == 0 {
		return false, err
	}
	text, err := r.GetString(0, 0)
	if err != nil {
		return false, err
	}
	place, _, _ := strings.Cut(text, " ")
	return !beforePlace(place, end), nil
}

// beforePlace compares places, file:position. Files' names are of one length.
func beforePlace(a, b string) bool {
	fileA, posA, _ := strings.Cut(a, ":")
	fileB, posB, _ := strings.Cut(b, ":")
	if fileA != fileB {
		return fileA < fileB
	}
	return len(posA) < len(posB) || len(posA) == len(posB) && posA < posB
}

const insertMy = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES "

func appendMyRow(b []byte, n int, at int64) []byte {
	b = append(b, "('order','"...)
	b = strconv.AppendInt(b, int64(n%spread), 10)
	b = append(b, `','OrderPlaced','{"customer": `...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `, "t": `...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `, "note": "`...)
	return append(append(b, payloadNote...), `"}')`...)
}

func (g *myGround) fill(ctx context.Context, rows, perTxn int) error {
	if err := g.durable(ctx, false); err != nil {
		return err
	}
	err := inParallel(rows, perTxn, func(share func() (first, n int)) error {
		conn, err := g.connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for first, n := share(); n > 0 && ctx.Err() == nil; first, n = share() {
			if err := writeMyRows(conn, first, n); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return errors.Join(err, g.durable(context.WithoutCancel(ctx), true))
}

// durable sets whether commits wait for the disk, which is the server's default here.
func (g *myGround) durable(ctx context.Context, yes bool) error {
	binlog, flush := "0", "2"
	if yes {
		binlog, flush = "1", "1"
	}
	return g.s.my.Exec(ctx, "", "SET GLOBAL sync_binlog = "+binlog, "SET GLOBAL innodb_flush_log_at_trx_commit = "+flush)
}

// writeMyRows writes rows in one transaction.
func writeMyRows(conn *client.Conn, first, n int) error {
	if n > statementRows {
		if err := conn.Begin(); err != nil {
			return err
		}
	}
	for done := 0; done < n; {
		b := []byte(insertMy)
		for i := range min(n-done, statementRows) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendMyRow(b, first+done+i, 0)
		}
		if _, err := conn.Execute(string(b)); err != nil {
			return err
		}
		done += min(n-done, statementRows)
	}
	if n > statementRows {
		return conn.Commit()
	}
	return nil
}

func (g *myGround) writer(ctx context.Context) (writer, error) {
	conn, err := g.connect(ctx)
	if err != nil {
		return nil, err
	}
	stmt, err := conn.Prepare(insertMy + "('order', ?, 'OrderPlaced', ?)")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &myWriter{conn, stmt}, nil
}

type myWriter struct {
	conn *client.Conn
	stmt *client.Stmt
}

func (w *myWriter) write(_ context.Context, n int, at int64) error {
	_, err := w.stmt.Execute(strconv.Itoa(n%spread), payloadText(n, at))
	return err
}

func (w *myWriter) close(context.Context) error { return w.conn.Close() }

func payloadText(n int, at int64) string {
	return fmt.Sprintf(`{"customer": %d, "t": %d, "note": "%s"}`, n, at, payloadNote)
}

func (g *myGround) empty(context.Context) (rows int, took time.Duration, err error) {
	r, err := g.conn.Execute("SELECT id FROM outbox ORDER BY id")
	if err != nil {
		return 0, 0, err
	}
	var ids []string
	for i := range r.RowNumber() {
		id, err := r.GetString(i, 0)
		if err != nil {
			return 0, 0, err
		}
		ids = append(ids, id)
	}
	began := time.Now()
	for part := range slices.Chunk(ids, deleteMost) {
		if err := g.conn.Begin(); err != nil {
			return 0, 0, err
		}
		for chunk := range slices.Chunk(part, deleteChunk) {
			if _, err := g.conn.Execute("DELETE FROM outbox WHERE id IN ('" + strings.Join(chunk, "','") + "')"); err != nil {
				return 0, 0, err
			}
		}
		if err := g.conn.Commit(); err != nil {
			return 0, 0, err
		}
	}
	return len(ids), time.Since(began), nil
}

func (g *myGround) drop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return errors.Join(g.conn.Close(), g.s.my.Exec(ctx, "", "DROP DATABASE "+g.name))
}
