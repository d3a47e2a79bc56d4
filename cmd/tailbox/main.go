// Command tailbox relays the messages of outbox tables to sinks by tailing the database's log.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/verbs"
)

// Set when the binary is linked; see version.go for the fallback.
var version, commit string //nolint:gochecknoglobals // The linker sets them.

const (
	// lastGrace is how long a command has after the second signal.
	lastGrace = 2 * time.Second
	// oneSignal is how soon a further signal is the same one: timeout(1) and others send theirs to the process and then to its
	// whole group.
	oneSignal = 250 * time.Millisecond
)

func main() {
	// Libraries write to the standard logger what they think of other machines' answers, past the level and format of ours.
	log.SetOutput(io.Discard)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup, which is to outlive its terminal
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, stop := context.WithCancel(context.Background())
	now := make(chan struct{})
	ended := make(chan int, 1)
	hangups, taken := make(chan struct{}, 1), atomic.Bool{}
	takeHangups := func() <-chan struct{} {
		if hasTerminal() {
			return nil
		}
		taken.Store(true)
		return hangups
	}
	sh := &cli.Shell{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Variables: variables(), Now: now, Hangups: takeHangups,
		Terminal: isTerminal(os.Stderr), Width: width(os.Stdout)}
	// NO_COLOR: https://no-color.org
	sh.Colors = isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	go func() { ended <- run(ctx, sh, os.Args[1:]) }()
	var first time.Time
	second := false
	for {
		select {
		case code := <-ended:
			stop()
			os.Exit(code)
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP && taken.Load():
				select {
				case hangups <- struct{}{}:
				default: // it will be looked at
				}
			case first.IsZero():
				first = time.Now()
				stop()
			case !second && s != syscall.SIGHUP && time.Since(first) > oneSignal: // a terminal that is closed may be told of again and again
				second = true
				close(now)
				time.AfterFunc(lastGrace, func() { os.Exit(exitFailed) })
			}
		}
	}
}

// root is the whole command line.
func root() *cli.Command {
	return &cli.Command{
		Name:  "tailbox",
		About: "relays the messages of outbox tables to sinks by tailing the database's log",
		Sub: []*cli.Command{newDemo(), newInit(), newCheck(), newRun(), newStatus(), verbs.NewDead(), verbs.NewGroup(), verbs.NewSink(), verbs.NewAudit(), verbs.NewTail(),
			verbs.NewAcceptGap(), verbs.NewSend(), newConfig(), newDoctor(), newImport(), newUninstall(), cli.NewCompletion(root), cli.NewMan(root), newVersion()},
		Example: "tailbox demo\ntailbox init -c tailbox.yaml && tailbox run -c tailbox.yaml",
	}
}

// hasTerminal reports whether the process belongs to a terminal, whose end is told by SIGHUP.
func hasTerminal() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = terminal.Close() // nothing was written
	return true
}

// variables lists the names of the environment's variables.
func variables() []string {
	var names []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}
