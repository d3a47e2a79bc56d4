package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Follower starts a second broker of the cluster, for this test alone, and stops it when the test ends. Topics that are created from then on
// have a replica on both. The test may stop, kill, restart and pause it. It has one listener, without TLS and without SASL.
func (k *KafkaServer) Follower(tb testing.TB) *KafkaServer {
	tb.Helper()
	if err := k.owned("add a broker to"); err != nil {
		unavailable(tb, err)
	}
	f, err := k.startFollower()
	if err != nil {
		unavailable(tb, err)
	}
	k.replicas = 2
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the log of Kafka's second broker:\n%s", tail(f.child.log, 4000))
		}
		if err := f.Close(); err != nil {
			tb.Errorf("close Kafka's second broker: %v", err)
		}
	})
	return f
}

func (k *KafkaServer) startFollower() (*KafkaServer, error) {
	dir, err := tempDir("tailbox-kafka-")
	if err != nil {
		return nil, err
	}
	f := &KafkaServer{dir: dir, lib: k.lib}
	if f.child, err = newChild(dir, "KILL", f.command); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.ports = map[listener]int{plaintext: port}
	text := fmt.Sprintf("process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@127.0.0.1:%d\n", k.ports[controller]) +
		fmt.Sprintf("listeners=%s://127.0.0.1:%d\nlistener.security.protocol.map=%[1]s:PLAINTEXT,%[3]s:PLAINTEXT\n", plaintext, port, controller) +
		"log.dirs=" + filepath.Join(dir, "data") + kafkaProperties
	if err := os.WriteFile(f.properties(), []byte(text), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("write configuration of Kafka's second broker: %w", err), f.Close())
	}
	if err := errors.Join(f.format(), f.Start()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
