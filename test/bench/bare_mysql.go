package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// bareMySQL is the bare reader of a binlog: go-mysql's BinlogSyncer, set up as fast as it goes. It decodes the rows of one table
// (and so no marks of a relay's), counts them, and with -lines prints their payloads.
func bareMySQL(args []string) error {
	set := flag.NewFlagSet("bare-mysql", flag.ContinueOnError)
	kind := set.String("kind", kindMySQL, "`KIND` of server")
	address := set.String("address", "", "host and `PORT`")
	database := set.String("database", "", "`NAME` of the table's database")
	from := set.String("from", "", "`PLACE` to read from, file:position")
	rows := set.Int("rows", 0, "`NUMBER` of rows after which to say so")
	lines := set.Bool("lines", false, "print payloads")
	if err := set.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	host, port, err := net.SplitHostPort(*address)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	file, text, _ := strings.Cut(*from, ":")
	pos, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return fmt.Errorf("parse -from %q: %w", *from, err)
	}
	b := &bareRows{database: *database, rows: *rows, lines: *lines, failed: make(chan error, 1)}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 1<<30 + uint32(os.Getpid()), Flavor: *kind, Host: host, Port: uint16(number), User: "root",
		Logger: slog.New(slog.DiscardHandler), DisableRetrySync: true, DiscardGTIDSet: true, HeartbeatPeriod: 4 * time.Second,
		TimestampStringLocation: time.UTC, RenderJSONAsMySQLText: true, RowsEventDecodeFunc: b.decode, SynchronousEventHandler: b,
	})
	defer syncer.Close()
	streamer, err := syncer.StartSync(mysql.Position{Name: file, Pos: uint32(pos)})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, sayReading)
	_ = streamer // its events go to the handler
	select {
	case <-ctx.Done():
		return nil
	case err := <-b.failed:
		return err
	}
}

// bareRows handles events.
type bareRows struct {
	database   string
	rows, seen int
	lines      bool
	failed     chan error
}

// decode decodes the rows of the outbox, and leaves all others as they are.
func (b *bareRows) decode(e *replication.RowsEvent, data []byte) error {
	pos, err := e.DecodeHeader(data)
	if err != nil || string(e.Table.Table) != "outbox" || string(e.Table.Schema) != b.database {
		return err
	}
	return e.DecodeData(pos, data)
}

// HandleEvent takes what was decoded.
func (b *bareRows) HandleEvent(e *replication.BinlogEvent) error {
	if p, ok := e.Event.(*replication.TransactionPayloadEvent); ok {
		for _, inner := range p.Events {
			if err := b.HandleEvent(inner); err != nil {
				return err
			}
		}
		return nil
	}
	r, ok := e.Event.(*replication.RowsEvent)
	if !ok || len(r.Rows) == 0 || r.Type() != replication.EnumRowsEventTypeInsert {
		return nil
	}
	if b.lines {
		for _, row := range r.Rows {
			if err := printLine(row[4]); err != nil { // id, aggregatetype, aggregateid, type, payload
				b.failed <- err
				return err
			}
		}
	}
	before := b.seen
	b.seen += len(r.Rows)
	if before < b.rows && b.seen >= b.rows {
		fmt.Fprintln(os.Stderr, sayDone)
	}
	return nil
}

// printLine writes a payload as a line.
func printLine(payload any) error {
	var line []byte
	switch v := payload.(type) {
	case []byte:
		line = append(line, v...)
	case string:
		line = append(line, v...)
	default:
		return errors.New("a payload is no text")
	}
	_, err := os.Stdout.Write(append(line, '\n'))
	return err
}
