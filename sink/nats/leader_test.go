package nats_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestNoLeader kills the leader of a stream with three replicas. Until another one is found nobody takes the stream's subject, which must not
// look like a subject that no stream takes; then messages are stored without anybody's help.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.NATSCluster(t, 3)
	var urls []string
	for _, server := range cluster {
		urls = append(urls, server.URL())
	}
	nc, err := natsgo.Connect(strings.Join(urls, ","), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var stream jetstream.Stream
	sinktest.Eventually(t, "a stream to be made", func() bool {
		stream, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Replicas: 3})
		return err == nil
	})
	s := newSink(t, nats.Config{Servers: urls, Stream: "ORDERS"})
	sinktest.Eventually(t, "the stream to take messages", func() bool { return one(t, s, delivery("orders.paid", "first")) == nil })
	wantClass(t, one(t, s, delivery("nobody", "1")), sink.ClassMisconfigured, "nats stream add")

	without := 0
	for round := 0; round < 2 || without == 0 && round < 8; round++ { // an election may be over before anybody asks
		var leader int
		sinktest.Eventually(t, "the stream to tell its leader", func() bool {
			info, err := stream.Info(t.Context())
			if err != nil || info.Cluster == nil {
				return false
			}
			_, err = fmt.Sscanf(info.Cluster.Leader, "n%d", &leader)
			return err == nil
		})
		if err := cluster[leader].Kill(); err != nil {
			t.Fatal(err)
		}
		sinktest.Eventually(t, "another leader", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than an election takes: what the old leader was asked, it never answers
			defer cancel()
			err := s.Deliver(ctx, []*sink.Delivery{delivery("orders.paid", fmt.Sprint("after ", round))})
			if err == nil {
				return true
			}
			switch class, _, _ := sink.Classify(err[0]); class {
			case sink.ClassUnavailable: // or the old leader may have it
				if strings.Contains(err[0].Error(), "no leader") {
					without++
				}
			case sink.ClassUnreachable:
			default:
				t.Errorf("without a leader: %v: %v", class, err[0])
			}
			return false
		})
		if err := cluster[leader].Start(); err != nil {
			t.Fatal(err)
		}
	}
	if without == 0 {
		t.Error("nobody noticed that there was no leader")
	}
	// No two of three: not even JetStream has a leader that could tell what streams there are.
	for _, server := range cluster[1:] {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	lost := newSink(t, nats.Config{Servers: urls[:1]})
	sinktest.Eventually(t, "the loss to be noticed", func() bool {
		err := one(t, lost, delivery("orders.paid", "lost"))
		class, _, _ := sink.Classify(err)
		if err != nil && class == sink.ClassMisconfigured {
			t.Errorf("without a majority: %v: %v", class, err)
		}
		return err != nil && class == sink.ClassUnavailable
	})
}

// TestNoJetStream: a server that has none stays without it until the operator acts.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{Bare: true})
	s := newSink(t, nats.Config{Servers: []string{server.URL()}})
	wantClass(t, one(t, s, delivery("orders.paid", "1")), sink.ClassMisconfigured, "JetStream is off")
}

// TestNoStream: a subject that no stream takes is published once a try. To publish it again and again would keep a call busy that messages of
// other subjects wait for.
func TestNoStream(t *testing.T) {
	t.Parallel()
	addr, sent := overheard(t, servers.SharedNATS(t).Addr())
	s := newSink(t, nats.Config{Servers: []string{"nats://" + addr}})
	for i := range 3 {
		wantClass(t, one(t, s, delivery("nobody.listens", fmt.Sprint(i))), sink.ClassMisconfigured, "nats stream add")
	}
	if n := strings.Count(sent(), "PUB nobody.listens "); n != 3 {
		t.Errorf("three tries of a subject without a stream made %d publications, want 3", n)
	}
}

// overheard stands before a server and returns what its clients sent.
func overheard(t *testing.T, server string) (addr string, sent func() string) {
	t.Helper()
	var mu sync.Mutex
	var text strings.Builder
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() { _, _ = io.Copy(client, up); _ = client.Close() }()
			go func() {
				defer up.Close()
				for buf := make([]byte, 64<<10); ; {
					n, err := client.Read(buf)
					mu.Lock()
					text.Write(buf[:n])
					mu.Unlock()
					if _, werr := up.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}
