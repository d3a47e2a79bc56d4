package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

// drain is what one run took.
type drain struct {
	rows int
	took time.Duration
	cpu  time.Duration
	rss  int64 // highest, bytes
	// batch is how many messages a call to the sink had on average; 0 of a bare reader.
	batch float64
}

func (d drain) rate() float64 { return float64(d.rows) / d.took.Seconds() }

// micros is processor time a message.
func (d drain) micros() float64 { return float64(d.cpu.Microseconds()) / float64(d.rows) }

// perCall tells the mean size of calls.
func (d drain) perCall() string {
	if d.batch == 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f a call", d.batch)
}

// runner is a way to drain a slot: a prepared process.
type runner struct {
	slot string
	cmd  func(context.Context) *exec.Cmd
	log  string
	// admin is where its metrics are; "" for a bare reader.
	admin string
}

// run starts the process, waits until the slot is drained, and stops it.
func (db *base) run(ctx context.Context, r runner, rows int) (drain, error) {
	cmd := r.cmd(ctx)
	stop, exited, err := start(cmd, r.log)
	if err != nil {
		return drain{}, err
	}
	took, err := db.watch(ctx, r, exited)
	batch := 0.0
	if err == nil && r.admin != "" {
		batch, err = meanBatch(r.admin)
	}
	err = errors.Join(err, stop())
	if err != nil {
		return drain{}, fmt.Errorf("drain slot %s: %w: %s", r.slot, err, lastLine(r.log))
	}
	state := cmd.ProcessState
	d := drain{rows: rows, took: took, cpu: state.UserTime() + state.SystemTime(), batch: batch}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		d.rss = usage.Maxrss << 10
	}
	return d, nil
}

// meanBatch reads the mean size of calls from a relay's metrics.
func meanBatch(admin string) (float64, error) {
	values, err := e2e.Metrics(admin)
	if err != nil {
		return 0, err
	}
	calls := values[`tailbox_batch_size_count{sink="out"}`]
	if calls == 0 {
		return 0, errors.New("read metrics: there is no tailbox_batch_size of the sink out")
	}
	return values[`tailbox_batch_size_sum{sink="out"}`] / calls, nil
}

// watch waits for the end, and returns the time from the first sight of a reader on the slot.
func (db *base) watch(ctx context.Context, r runner, exited <-chan struct{}) (time.Duration, error) {
	var began time.Time
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-exited:
			return 0, errors.New("it ended early")
		case <-tick.C:
		}
		active, done, err := db.reached(ctx, r.slot)
		switch {
		case err != nil:
			return 0, err
		case done && !began.IsZero():
			return time.Since(began), nil
		case active && began.IsZero():
			began = time.Now()
		}
	}
}

// start starts a process with its messages in a file; stop ends it softly and waits.
func start(cmd *exec.Cmd, log string) (stop func() error, exited <-chan struct{}, err error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	cmd.Stderr = file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	var end error
	go func() {
		end = cmd.Wait()
		close(ended)
	}()
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(time.Minute):
			err := errors.Join(errors.New("it does not stop"), cmd.Process.Kill())
			<-ended
			return err
		}
		if end != nil {
			return fmt.Errorf("%w: %s", end, lastLine(log))
		}
		return nil
	}, ended, nil
}

// bareReader prepares a bare reader with a slot of its own. topic, if not "", is where it produces to.
func (db *base) bareReader(ctx context.Context, tcp bool, topic string) (runner, error) {
	db.count++
	slot := fmt.Sprintf("bare_%d", db.count)
	if err := db.exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot); err != nil {
		return runner{}, err
	}
	return runner{slot: slot, log: filepath.Join(db.dir, slot+".log"), cmd: func(ctx context.Context) *exec.Cmd {
		args := []string{"bare", "-url", db.url(tcp), "-slot", slot, "-publication", "bench", "-end", db.end}
		if topic != "" {
			args = append(args, "-brokers", strings.Join(db.kafka.Brokers(), ","), "-topic", topic)
		}
		return exec.CommandContext(ctx, db.self, args...)
	}}, nil
}

// relay prepares a relay of a pipeline of its own, by running its init. config holds the lines of the file after the source's
// url.
func (db *base) relay(ctx context.Context, tcp bool, table, rest string) (runner, error) {
	if table == markTable {
		db.table = "events"
	}
	db.count++
	name := fmt.Sprintf("r%d", db.count)
	file := filepath.Join(db.dir, name+".yaml")
	text := fmt.Sprintf("pipeline: %s\nsource:\n  kind: postgres\n  url: %q\n  publication: bench\n  tables:\n    - %s\n%s\n", name, db.url(tcp), table, rest)
	admin := fmt.Sprintf("127.0.0.1:%d", 10000+db.count%1000) // below the ports of servers and of outgoing connections
	text += fmt.Sprintf("admin: {listen: %q}\n", admin)
	if db.token != "" {
		text = strings.TrimSuffix(text, "}\n") + fmt.Sprintf(", token: %s}\n", db.token)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return runner{}, err
	}
	if out, err := exec.CommandContext(ctx, db.binary, "init", "-c", file).CombinedOutput(); err != nil {
		return runner{}, fmt.Errorf("tailbox init: %w: %s", err, out)
	}
	return runner{slot: "tailbox_" + name, admin: admin, log: filepath.Join(db.dir, name+".log"), cmd: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, db.binary, "run", "-c", file)
	}}, nil
}
