package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// binlogFollower reads the binlog as a replica of its own does.
type binlogFollower struct {
	*Truth
	begins gomysql.Position // behind the last transaction that was read to its end
	read   atomic.Uint64    // how far the log was read, as placed has it

	file string // that is being read
	gtid uint64 // of the open transaction, as placed has the end of its event
	rows []row
}

func (m *mySQL) follower(t *Truth) follower {
	t.ascending = true // positions have a row's place in its transaction, not its number
	return &binlogFollower{Truth: t, begins: m.begins}
}

// placed is a place in the binlog as positions of messages have it.
func placed(p gomysql.Position) (uint64, error) {
	_, number, _ := strings.Cut(p.Name, ".")
	file, err := strconv.ParseUint(number, 10, 28)
	if err != nil {
		return 0, fmt.Errorf("binlog file %q: %w", p.Name, err)
	}
	return file<<36 | uint64(p.Pos), nil
}

func (f *binlogFollower) goal() (uint64, error) {
	end, err := f.bed.database.(*mySQL).logEnd(context.Background())
	if err != nil {
		return 0, err
	}
	return placed(end)
}

func (f *binlogFollower) reached(goal uint64) bool { return f.read.Load() >= goal }

func (f *binlogFollower) follow(ctx context.Context) error {
	my := f.bed.My
	reader := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: rand.Uint32N(1<<30) + 1<<30, Flavor: f.bed.Kind, Host: "127.0.0.1",
		Port: uint16(my.Port), User: "root", DisableRetrySync: true, Logger: slog.New(slog.DiscardHandler), Charset: "utf8mb4"})
	defer reader.Close()
	stream, err := reader.StartSync(f.begins)
	if err != nil {
		return err
	}
	f.file, f.rows = f.begins.Name, nil
	for {
		e, err := stream.GetEvent(ctx)
		if err != nil {
			return errors.Join(err, f.passCut(ctx, err))
		}
		if err := f.take(e); err != nil {
			return err
		}
	}
}

// passCut goes on behind an event that MariaDB had not written to its end when it was killed, and at which it ends the stream each time. It has rolled the
// transaction back, and begun another file. MySQL takes such an event out of its log.
func (f *binlogFollower) passCut(ctx context.Context, failed error) error {
	if !strings.Contains(failed.Error(), "truncated in the middle of event") {
		return nil
	}
	files, err := f.bed.textsMySQL(ctx, "SHOW BINARY LOGS")
	if i := slices.Index(files, f.file); err == nil && i >= 0 && i+1 < len(files) {
		f.begins = gomysql.Position{Name: files[i+1], Pos: 4}
	}
	return err
}

// take takes an event.
func (f *binlogFollower) take(e *replication.BinlogEvent) error {
	if r, ok := e.Event.(*replication.RotateEvent); ok {
		f.file = string(r.NextLogName)
		at, err := placed(gomysql.Position{Name: f.file, Pos: uint32(r.Position)})
		f.read.Store(max(f.read.Load(), at))
		return err
	}
	if e.Header.LogPos == 0 {
		return nil // made for this reader, and not in the file
	}
	end := gomysql.Position{Name: f.file, Pos: e.Header.LogPos}
	at, err := placed(end)
	if err != nil {
		return err
	}
	switch v := e.Event.(type) {
	case *replication.GTIDEvent, *replication.MariadbGTIDEvent:
		f.gtid, f.rows = at, nil
	case *replication.RowsEvent:
		err = f.inserted(e.Header.EventType, v)
	case *replication.XIDEvent:
		if len(f.rows) > 0 {
			f.commit(f.gtid, f.rows)
		}
		f.rows, f.begins = nil, end
	case *replication.QueryEvent:
		if q := string(v.Query); len(f.rows) > 0 && q != "BEGIN" && !strings.HasPrefix(q, "SAVEPOINT") {
			return fmt.Errorf("read binlog: statement %.100q in a transaction of the load", q)
		}
	}
	f.read.Store(max(f.read.Load(), at))
	return err
}

// inserted takes rows of the two tables.
func (f *binlogFollower) inserted(kind replication.EventType, e *replication.RowsEvent) error {
	switch kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
	default:
		return nil
	}
	table := string(e.Table.Table)
	if string(e.Table.Schema) != f.bed.DB || table != "outbox" && table != "events" {
		return nil
	}
	at := map[string]int{}
	for i, name := range e.Table.ColumnName {
		at[string(name)] = i
	}
	for _, values := range e.Rows {
		r := row{n: int32(len(f.rows))}
		id, ok := values[at["id"]].(int64)
		if !ok {
			return fmt.Errorf("read binlog: id of a row of %s is %v", table, values[at["id"]])
		}
		r.id = id
		if table == "outbox" {
			r.group = fmt.Sprintf("%s:%s", values[at["aggregatetype"]], values[at["aggregateid"]])
		} else if group, ok := values[at["message_group"]].(string); ok {
			r.group = group
		}
		f.rows = append(f.rows, r)
	}
	return nil
}
