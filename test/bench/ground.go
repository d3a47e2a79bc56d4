package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

// A server is a database server that the relay is measured against a bare reader on.
type server interface {
	// newGround makes a database. Its outbox table is made by the first relay's init.
	newGround(ctx context.Context, name string) (ground, error)
	// locked reports whether a writer's error is a deadlock, or a lock that was waited for too long.
	locked(err error) bool
	close() error
}

// A ground is a database of its own with one outbox table, which relays and bare readers connect to in the same way.
type ground interface {
	// source are the lines of the configuration under source, but for the tables.
	source() string
	// bare prepares a bare reader from the log's present end on, and returns the arguments of its process.
	bare(ctx context.Context) ([]string, error)
	// end is the log's present end.
	end(ctx context.Context) (string, error)
	// settled reports whether all that a pipeline has settled reaches up to a place in the log.
	settled(ctx context.Context, pipeline, end string) (bool, error)
	// fill writes rows in transactions of so many. It does not wait for the disk.
	fill(ctx context.Context, rows, perTxn int) error
	// writer opens a connection for writing rows as an application does: one a transaction, durable.
	writer(ctx context.Context) (writer, error)
	drop(ctx context.Context) error
}

// An emptier can be emptied by hand: its rows are deleted by their primary key, in its order, deleteChunk a statement and
// deleteMost a transaction, over one connection. Listing them is not counted. It is the most that a relay with delete can reach.
type emptier interface {
	empty(ctx context.Context) (rows int, took time.Duration, err error)
}

const (
	deleteChunk = 250
	deleteMost  = 5000
)

// A writer belongs to one goroutine.
type writer interface {
	// write writes the n-th row in a transaction of its own. At goes into the payload as its member t.
	write(ctx context.Context, n int, at int64) error
	close(ctx context.Context) error
}

// Kinds of server, by the names of source.kind.
const (
	kindPostgres = "postgres"
	kindMySQL    = "mysql"
	kindMariaDB  = "mariadb"
	kindMongoDB  = "mongodb"
)

// server starts a server when it is first needed.
func (b *bench) server(kind string) (server, error) {
	if s := b.servers[kind]; s != nil {
		return s, nil
	}
	var s server
	var err error
	switch kind {
	case kindPostgres:
		s, err = startPostgres(b)
	case kindMongoDB:
		s, err = startMongo()
	default:
		s, err = startMySQL(kind)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	b.servers[kind] = s
	return s, nil
}

// ground makes a database on a server of the kind.
func (b *bench) ground(ctx context.Context, kind string) (ground, error) {
	s, err := b.server(kind)
	if err != nil {
		return nil, err
	}
	b.count++
	return s.newGround(ctx, fmt.Sprintf("bench_%d", b.count))
}

// A reader is a prepared process that reads a log: a relay, or a bare reader.
type reader struct {
	name     string
	pipeline string // "" for a bare reader
	log      string
	cmd      func(context.Context) *exec.Cmd
}

// bareOn prepares a bare reader. It tells when it has read so many rows; with more arguments it does more.
func (b *bench) bareOn(ctx context.Context, g ground, rows int, more ...string) (*reader, error) {
	args, err := g.bare(ctx)
	if err != nil {
		return nil, err
	}
	b.count++
	name := fmt.Sprintf("bare%d", b.count)
	args = append(append(args, "-rows", fmt.Sprint(rows)), more...)
	return &reader{name: name, log: filepath.Join(b.dir, name+".log"), cmd: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, b.self, args...)
	}}, nil
}

// relayOn prepares a relay of a pipeline of its own, by running its init.
func (b *bench) relayOn(ctx context.Context, g ground, onDelivered, rest string) (*reader, error) {
	b.count++
	name := fmt.Sprintf("r%d", b.count)
	file := filepath.Join(b.dir, name+".yaml")
	text := fmt.Sprintf("pipeline: %s\nsource:\n%s\n  tables:\n    - {name: outbox, shape: debezium, on_delivered: %s}\n%s\nadmin: {listen: off}\n",
		name, g.source(), onDelivered, rest)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, b.binary, "init", "-c", file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tailbox init: %w: %s", err, out)
	}
	return &reader{name: name, pipeline: name, log: filepath.Join(b.dir, name+".log"), cmd: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, b.binary, "run", "-c", file)
	}}, nil
}

// drain runs a process until it has read, and a relay has settled, what is in the log up to a place.
func (b *bench) drain(ctx context.Context, g ground, r *reader, end string, rows int) (d drain, err error) {
	return b.runUntil(ctx, r, rows, func(p *process) (time.Time, error) {
		if r.pipeline == "" {
			return p.wait(ctx, p.done)
		}
		err := p.untilSettled(ctx, g, r, end)
		return time.Now(), err
	})
}

// runUntil runs a process, and measures it from when it reads to the time that until returns.
func (b *bench) runUntil(ctx context.Context, r *reader, rows int, until func(*process) (time.Time, error)) (d drain, err error) {
	p, err := launch(r.cmd(ctx), r.log, nil)
	if err != nil {
		return d, err
	}
	defer func() {
		if err = errors.Join(err, p.stop()); err != nil {
			err = fmt.Errorf("drain by %s: %w: %s", r.name, err, lastLine(r.log))
		}
	}()
	began, err := p.wait(ctx, p.reading)
	if err != nil {
		return d, err
	}
	ended, err := until(p)
	if err != nil {
		return d, err
	}
	d.rows, d.took = rows, ended.Sub(began)
	usage, err := e2e.ReadUsage(p.cmd.Process.Pid)
	d.cpu, d.rss = usage.CPU, usage.PeakRSS
	return d, err
}

// settledEvery is how often a relay's checkpoint is looked at: that costs the server something, which a bare reader is not charged with.
const settledEvery = 20 * time.Millisecond

// untilSettled waits until a relay has settled everything up to a place.
func (p *process) untilSettled(ctx context.Context, g ground, r *reader, end string) error {
	tick := time.NewTicker(settledEvery)
	defer tick.Stop()
	for {
		done, err := g.settled(ctx, r.pipeline, end)
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return errEndedEarly
		case <-tick.C:
		}
	}
}

// payloadNote makes payloads about 200 bytes long.
const payloadNote = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" +
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
