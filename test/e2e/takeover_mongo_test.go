//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestTakeoverFromElsewhere kills a relay of which the one that stands by cannot know that it is dead, for it ran on another machine:
// it takes over when the lease ends, 10 s after it was renewed last.
func TestTakeoverFromElsewhere(t *testing.T) {
	ledger := NewLedger("hook")
	endpoint := NewEndpoint(t, ledger)
	var second atomic.Pointer[time.Time] // its first request
	endpoint.Answer(func(q Request) Answer {
		if q.From == "second" {
			second.CompareAndSwap(nil, &q.At)
		}
		return Answer{}
	})
	options := func(name string) Options {
		return Options{Kind: "mongodb", Top: []string{retryFast}, Sinks: []string{
			fmt.Sprintf("hook: {kind: http, url: %q, timeout: 2s, headers: {x-relay: %s}}", endpoint.URL(false), name)}}
	}
	b := NewBed(t, options("first"))
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: 1000, Delivered: ledger.Count}
	load.Run(b)
	holder := b.Start(nil)
	b.Eventually(20*time.Second, func() string {
		if ledger.Count() < 1000 {
			return "the first relay does not work"
		}
		return ""
	})
	// What tells the machine apart is part of the lease, and never written again.
	elsewhere := bson.D{{Key: "$set", Value: bson.D{{Key: "lease_holder.host", Value: "elsewhere"}}}}
	if r, err := b.Collection("tailbox_checkpoint").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "e2e"}}, elsewhere); err != nil || r.ModifiedCount != 1 {
		t.Fatalf("change the lease: %+v, %v", r, err)
	}
	config, log := filepath.Join(b.Dir, "second.yaml"), filepath.Join(b.Dir, "second.log")
	b.ConfigureAs(config, options("second"))
	standby := b.StartWith(config, log, nil)
	b.Eventually(20*time.Second, func() string {
		if !strings.Contains(Tail(log, 5), "standing by") {
			return "the second relay does not stand by"
		}
		return ""
	})
	at := time.Now()
	holder.Kill()
	pending, err := b.Pending(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ledger.Killed(pending)
	b.Eventually(time.Minute, func() string {
		if second.Load() == nil {
			return "the second relay delivers nothing\n" + Tail(log, 5)
		}
		return ""
	})
	took := second.Load().Sub(at)
	t.Logf("takeover took %v", took.Round(time.Millisecond))
	// The lease, at most a quarter of a second more than a second until the standby asks for it, and its start.
	if took > 12500*time.Millisecond {
		t.Errorf("takeover: took %v, want about 11 s", took)
	}
	load.Stop()
	b.AwaitSettled(time.Minute)
	standby.Stop()
	truth.CatchUp()
	ledger.Check(truth, true)
	ledger.Verdict(t)
	t.Log(ledger)
}
