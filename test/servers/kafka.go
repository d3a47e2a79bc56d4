package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// What the listeners with SASL accept, by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
const (
	KafkaUsername = "relay"
	KafkaPassword = "relay secret"
)

// KafkaServer is a single Kafka node, broker and controller in one. It accepts
// clients on five listeners. Access control lists can be made; what none names
// is allowed. Topics are not made by themselves. Safe for concurrent use.
type KafkaServer struct {
	Certificates Certificates // what the listeners with TLS present and trust

	external []string // set for a broker that we did not start
	ports    map[listener]int
	// proxyPort is where the proxied listener tells clients to go.
	proxyPort int
	replicas  int // of new topics
	jvm       []string
	dir       string
	lib       string
	child     *child
}

// listener is one of Kafka's own listener names.
type listener string

const (
	plaintext  listener = "PLAINTEXT"
	saslPlain  listener = "SASL"
	tlsOnly    listener = "TLS"
	tlsMutual  listener = "MUTUALTLS"
	saslTLS    listener = "SASLTLS"
	proxied    listener = "PROXIED" // advertised under a port of its own, see Proxy
	controller listener = "CONTROLLER"
)

// protocols says how each listener speaks, in the order of the configuration.
func protocols() []struct {
	name     listener
	protocol string
} {
	return []struct {
		name     listener
		protocol string
	}{
		{plaintext, "PLAINTEXT"}, {saslPlain, "SASL_PLAINTEXT"}, {tlsOnly, "SSL"},
		{tlsMutual, "SSL"}, {saslTLS, "SASL_SSL"}, {proxied, "PLAINTEXT"}, {controller, "PLAINTEXT"},
	}
}

// Kafka starts a broker for this test alone and stops it when the test ends.
// The test may stop, kill, restart and pause it.
func Kafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	k, err := StartKafka()
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of Kafka's log:\n%s", tail(k.child.log, 4000))
		}
		if err := k.Close(); err != nil {
			tb.Errorf("close Kafka: %v", err)
		}
	})
	return k
}

// KafkaOption changes how a broker is started.
type KafkaOption func(*KafkaServer)

// WithKafkaJVM starts the broker with these options of the Java virtual machine, in place of a small heap.
func WithKafkaJVM(options ...string) KafkaOption { return func(k *KafkaServer) { k.jvm = options } }

// StartKafka starts a broker; the caller closes it.
func StartKafka(options ...KafkaOption) (*KafkaServer, error) {
	lib, err := KafkaLib()
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("tailbox-kafka-")
	if err != nil {
		return nil, err
	}
	k := &KafkaServer{dir: dir, lib: lib, replicas: 1, jvm: []string{"-Xmx512m"}}
	for _, o := range options {
		o(k)
	}
	if k.child, err = newChild(dir, "KILL", k.command); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if k.Certificates, err = makeCertificates(dir); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	for try := 1; ; try++ {
		if err = k.configure(); err != nil {
			return nil, errors.Join(err, k.Close())
		}
		if try == 1 {
			if err = k.format(); err != nil {
				return nil, errors.Join(err, k.Close())
			}
		}
		if err = k.Start(); err == nil {
			return k, nil
		}
		if try == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return nil, errors.Join(err, k.Close())
		}
	}
}

// configure writes server.properties with ports that are free now.
func (k *KafkaServer) configure() error {
	k.ports = make(map[listener]int)
	var listeners, advertised, protocolMap []string
	ports, err := freePorts(len(protocols()) + 1)
	if err != nil {
		return err
	}
	k.proxyPort = ports[len(ports)-1]
	for i, l := range protocols() {
		k.ports[l.name] = ports[i]
		address := fmt.Sprintf("%s://127.0.0.1:%d", l.name, ports[i])
		listeners = append(listeners, address)
		switch l.name {
		case controller: // clients have no business there
		case proxied:
			advertised = append(advertised, fmt.Sprintf("%s://127.0.0.1:%d", l.name, k.proxyPort))
		default:
			advertised = append(advertised, address)
		}
		protocolMap = append(protocolMap, string(l.name)+":"+l.protocol)
	}
	text := "listeners=" + strings.Join(listeners, ",") +
		"\nadvertised.listeners=" + strings.Join(advertised, ",") +
		"\nlistener.security.protocol.map=" + strings.Join(protocolMap, ",") +
		fmt.Sprintf("\nprocess.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:%d\n", k.ports[controller]) +
		"log.dirs=" + filepath.Join(k.dir, "data") + kafkaProperties + saslProperties() + k.Certificates.kafkaProperties()
	if err := os.WriteFile(k.properties(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write Kafka's configuration: %w", err)
	}
	return nil
}

// properties is the broker's configuration file.
func (k *KafkaServer) properties() string { return filepath.Join(k.dir, "server.properties") }

// kafkaProperties is what does not depend on ports and files. One node keeps
// one copy of everything; internal topics are small, so that a start is quick. A
// node that comes back after a kill must wait for the end of its own old
// session, so that one is short.
const kafkaProperties = `
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=250
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
`

// saslProperties names the one user for PLAIN; SCRAM finds it in the data.
func saslProperties() string {
	const modules = "org.apache.kafka.common.security."
	var b strings.Builder
	for _, l := range []listener{saslPlain, saslTLS} {
		prefix := "\nlistener.name." + strings.ToLower(string(l))
		fmt.Fprintf(&b, "%s.plain.sasl.jaas.config=%splain.PlainLoginModule required user_%s=%q;",
			prefix, modules, KafkaUsername, KafkaPassword)
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			fmt.Fprintf(&b, "%s.%s.sasl.jaas.config=%sscram.ScramLoginModule required;", prefix, mechanism, modules)
		}
	}
	return b.String()
}

// format prepares the data directory and the SCRAM credentials in it.
func (k *KafkaServer) format() error {
	args := []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(k.lib, "*"), "kafka.tools.StorageTool", "format",
		"-t", "dGFpbGJveC10ZXN0LTAwMQ", "-c", k.properties()}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%q]", mechanism, KafkaUsername, KafkaPassword))
	}
	cmd := exec.Command("java", args...)
	demote(cmd, k.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's data directory: %w\n%s", err, out)
	}
	return nil
}

// command is the broker's command line.
func (k *KafkaServer) command() *exec.Cmd {
	return exec.Command("java", append(slices.Clone(k.jvm), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(k.lib, "*"), "kafka.Kafka", k.properties())...)
}

// Brokers are the addresses of the listener without TLS and without SASL.
func (k *KafkaServer) Brokers() []string {
	if k.external != nil {
		return k.external
	}
	return k.addresses(plaintext)
}

// SASLBrokers are those of the listener with SASL and without TLS.
func (k *KafkaServer) SASLBrokers() []string { return k.addresses(saslPlain) }

// TLSBrokers are those of the listener with TLS, which asks clients for nothing.
func (k *KafkaServer) TLSBrokers() []string { return k.addresses(tlsOnly) }

// MutualTLSBrokers are those of the listener that demands a client certificate
// of [Certificates].
func (k *KafkaServer) MutualTLSBrokers() []string { return k.addresses(tlsMutual) }

// SASLTLSBrokers are those of the listener with both SASL and TLS.
func (k *KafkaServer) SASLTLSBrokers() []string { return k.addresses(saslTLS) }

// MisadvertisedBrokers are those of a listener that can be reached, and the address that it gives to clients, where nobody
// listens while there is no [KafkaServer.Proxy].
func (k *KafkaServer) MisadvertisedBrokers(tb testing.TB) (brokers []string, advertised string) {
	tb.Helper()
	if k.external != nil {
		unavailable(tb, k.owned("have a listener that gives another address"))
	}
	return k.addresses(proxied), fmt.Sprintf("127.0.0.1:%d", k.proxyPort)
}

// Proxy starts a proxy that clients keep to: who dials it is told no other
// address. At most one at a time for a broker.
func (k *KafkaServer) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	if k.external != nil {
		unavailable(tb, k.owned("put a proxy before"))
	}
	p, err := startProxyOn(k.proxyPort, k.addresses(proxied)[0])
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("close proxy: %v", err)
		}
	})
	return p
}

func (k *KafkaServer) addresses(l listener) []string {
	if k.external != nil {
		return nil // the environment names only one listener
	}
	return []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(k.ports[l]))}
}

// Start starts a broker that was stopped or killed, on the same ports and data,
// and returns when it answers.
func (k *KafkaServer) Start() error {
	if err := k.owned("start"); err != nil {
		return err
	}
	if err := k.child.start(); err != nil {
		return err
	}
	_, exited := k.child.running()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := k.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("start Kafka: it ended\n%s", tail(k.child.log, 4000))
		case <-ctx.Done():
			return fmt.Errorf("start Kafka: no answer within 3 minutes: %w\n%s", err, tail(k.child.log, 4000))
		case <-tick.C:
		}
	}
}

// answers asks the broker for its metadata; it lists itself once it is ready.
func (k *KafkaServer) answers(ctx context.Context) error {
	conn, err := kafka.DialContext(ctx, "tcp", k.Brokers()[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	brokers, err := conn.Brokers()
	if err != nil {
		return err
	}
	if len(brokers) == 0 {
		return errors.New("it knows of no broker yet")
	}
	return nil
}

// Stop ends the broker in good order.
func (k *KafkaServer) Stop() error {
	if err := k.owned("stop"); err != nil {
		return err
	}
	return k.child.stop(syscall.SIGTERM)
}

// Kill ends the broker with SIGKILL.
func (k *KafkaServer) Kill() error {
	if err := k.owned("kill"); err != nil {
		return err
	}
	return k.child.kill()
}

// Restart stops the broker if it runs and starts it again on the same ports.
func (k *KafkaServer) Restart() error { return errors.Join(k.Stop(), k.Start()) }

// Pause freezes the broker with SIGSTOP: connections stay open and nothing
// answers.
func (k *KafkaServer) Pause() error {
	if err := k.owned("pause"); err != nil {
		return err
	}
	_, err := k.child.pause()
	return err
}

// Resume lets a paused broker go on.
func (k *KafkaServer) Resume() error {
	if err := k.owned("resume"); err != nil {
		return err
	}
	return k.child.resume()
}

// Close ends the broker at once and removes its data. Nothing happens to a
// broker that we did not start.
func (k *KafkaServer) Close() error {
	if k.external != nil {
		return nil
	}
	return k.child.close()
}

// owned refuses verbs on a broker that somebody else started.
func (k *KafkaServer) owned(verb string) error {
	if k.external != nil {
		return fmt.Errorf("%s Kafka: TAILBOX_TEST_KAFKA_BROKERS names a broker that is not ours; use servers.Kafka for one", verb)
	}
	return nil
}
