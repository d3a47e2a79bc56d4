package servers

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// NATSServer is a single nats-server with JetStream. Safe for concurrent use.
type NATSServer struct {
	Certificates Certificates // what a server with TLS presents and trusts

	external string // set for a server that we did not start
	tls      bool
	port     int
	dir      string
	child    *child
}

// NATSOptions change a server that a test has for itself.
type NATSOptions struct {
	// Lines are added to its configuration.
	Lines []string
	// TLS: clients must speak TLS. Mutual: and show a certificate of [Certificates].
	TLS, Mutual bool
	// Bare: no JetStream.
	Bare bool
}

// NATSBin is nats-server's program, or an error that names what installs it.
func NATSBin() (string, error) {
	bin, err := exec.LookPath("nats-server")
	if err == nil {
		return bin, nil
	}
	// Debian puts it where only root's PATH leads.
	if bin, err := exec.LookPath("/usr/sbin/nats-server"); err == nil {
		return bin, nil
	}
	return "", fmt.Errorf("find nats-server: %w; run: make servers", err)
}

// NATS starts a server for this test alone and stops it when the test ends. The test may stop, kill, restart and pause
// it.
func NATS(tb testing.TB, opts NATSOptions) *NATSServer {
	tb.Helper()
	s, err := StartNATS(opts)
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the NATS server's log:\n%s", tail(s.child.log, 4000))
		}
		if err := s.Close(); err != nil {
			tb.Errorf("close NATS server: %v", err)
		}
	})
	return s
}

// SharedNATS returns the server that all tests of this process use, which asks nobody who he is. Stop it or change its
// settings in no test: use [NATS] for that. With TAILBOX_TEST_NATS_URL it is that server.
func SharedNATS(tb testing.TB) *NATSServer {
	tb.Helper()
	shared.mu.Lock()
	if shared.nats == nil {
		shared.nats = sync.OnceValues(startSharedNATS)
	}
	start := shared.nats
	shared.mu.Unlock()
	s, err := start()
	if err != nil {
		unavailable(tb, err)
	}
	return s
}

// startSharedNATS starts a server, or takes the one that the environment names.
func startSharedNATS() (*NATSServer, error) {
	if url := os.Getenv("TAILBOX_TEST_NATS_URL"); url != "" {
		return &NATSServer{external: url}, nil
	}
	s, err := StartNATS(NATSOptions{})
	if err != nil {
		return nil, err
	}
	atEnd(s.Close)
	return s, nil
}

// StartNATS starts a server; the caller closes it.
func StartNATS(opts NATSOptions) (*NATSServer, error) {
	bin, err := NATSBin()
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("tailbox-nats-")
	if err != nil {
		return nil, err
	}
	s := &NATSServer{dir: dir, tls: opts.TLS || opts.Mutual}
	command := func() *exec.Cmd { return exec.Command(bin, "-c", s.config()) }
	if s.child, err = newChild(dir, "KILL", command); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.Certificates, err = makeCertificates(dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for try := 1; ; try++ {
		if s.port, err = freePort(); err == nil {
			err = os.WriteFile(s.config(), []byte(s.configuration(opts)), 0o644)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("configure NATS server: %w", err), s.Close())
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
		if try == 3 || !strings.Contains(err.Error(), "address already in use") {
			return nil, errors.Join(err, s.Close())
		}
	}
}

func (s *NATSServer) config() string { return filepath.Join(s.dir, "nats.conf") }

// configuration is the server's file. Larger messages than by default are let in, so that what is large is the test's
// choice.
func (s *NATSServer) configuration(opts NATSOptions) string {
	lines := []string{
		"listen: " + s.Addr(),
		"max_payload: 4MB",
	}
	if !opts.Bare {
		lines = append(lines, fmt.Sprintf("jetstream { store_dir: %q, max_memory_store: 64MB, max_file_store: 2GB }", filepath.Join(s.dir, "data")))
	}
	if s.tls {
		lines = append(lines, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: %v, timeout: 30 }",
			s.Certificates.ServerCert, s.Certificates.ServerKey, s.Certificates.CA, opts.Mutual))
	}
	return strings.Join(append(lines, opts.Lines...), "\n") + "\n"
}

// Addr is host:port of the server.
func (s *NATSServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is what clients connect to.
func (s *NATSServer) URL() string {
	switch {
	case s.external != "":
		return s.external
	case s.tls:
		return "tls://" + s.Addr()
	}
	return "nats://" + s.Addr()
}

// Start starts a server that was stopped or killed, on the same port and data, and returns when it answers.
func (s *NATSServer) Start() error {
	if err := s.owned("start"); err != nil {
		return err
	}
	if err := s.child.start(); err != nil {
		return err
	}
	_, exited := s.child.running()
	deadline := time.Now().Add(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.greets()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start NATS server: no answer within 60 s: %w\n%s", err, tail(s.child.log, 4000))
		}
		select {
		case <-exited:
			return fmt.Errorf("start NATS server: it ended\n%s", tail(s.child.log, 4000))
		case <-tick.C:
		}
	}
}

// greets waits for the line that a server greets clients with: its streams are there by then.
func (s *NATSServer) greets() error {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "INFO ") {
		err = fmt.Errorf("it greets with %.40q", line)
	}
	return err
}

// Reload gives the running server another configuration, which it takes over soon after. Its address and its way of
// speaking stay.
func (s *NATSServer) Reload(opts NATSOptions) error {
	if err := s.owned("reload"); err != nil {
		return err
	}
	if err := os.WriteFile(s.config(), []byte(s.configuration(opts)), 0o644); err != nil {
		return fmt.Errorf("configure NATS server: %w", err)
	}
	return s.child.signal(syscall.SIGHUP)
}

// Stop ends the server in good order.
func (s *NATSServer) Stop() error {
	if err := s.owned("stop"); err != nil {
		return err
	}
	return s.child.stop(syscall.SIGTERM)
}

// Kill ends the server with SIGKILL.
func (s *NATSServer) Kill() error {
	if err := s.owned("kill"); err != nil {
		return err
	}
	return s.child.kill()
}

// Pause freezes the server with SIGSTOP: connections stay open and nothing answers.
func (s *NATSServer) Pause() error {
	if err := s.owned("pause"); err != nil {
		return err
	}
	_, err := s.child.pause()
	return err
}

// Resume lets a paused server go on.
func (s *NATSServer) Resume() error {
	if err := s.owned("resume"); err != nil {
		return err
	}
	return s.child.resume()
}

// Close ends the server at once and removes its data. Nothing happens to a server that we did not start.
func (s *NATSServer) Close() error {
	if s.external != "" {
		return nil
	}
	return s.child.close()
}

// owned refuses verbs on a server that somebody else started.
func (s *NATSServer) owned(verb string) error {
	if s.external != "" {
		return fmt.Errorf("%s NATS server: TAILBOX_TEST_NATS_URL names one that is not ours; use servers.NATS for one", verb)
	}
	return nil
}
