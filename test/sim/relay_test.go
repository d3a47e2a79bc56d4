package sim_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/test/sim"
)

// engine is the real relay.
func engine(ctx context.Context, env *sim.Env) error {
	routes := router.Config{}
	for name := range env.Sinks {
		routes.Sinks = append(routes.Sinks, name)
	}
	for i := range env.Plan.Routes {
		r := &env.Plan.Routes[i]
		routes.Routes = append(routes.Routes, router.RouteConfig{Name: r.Type, Match: map[string][]string{"type": {r.Type}},
			To: r.To, Retry: &r.Retry, OnExhausted: r.OnExhausted})
	}
	rt, err := router.New(routes)
	if err != nil {
		return fmt.Errorf("make the router: %w", err)
	}
	cfg := relay.Config{Pipeline: "sim", Source: env.Source, Open: env.Open, Sinks: env.Sinks, Router: rt, Kept: env.Plan.Kept,
		Memory: env.Plan.Memory, Reconcile: env.Plan.Reconcile, ShutdownTimeout: env.Plan.ShutdownTimeout, Tick: env.Plan.Tick,
		Rand: env.Rand, Logger: env.Logger, Events: relay.Events{Bug: env.Bug}}
	r, err := relay.New(cfg)
	if err != nil {
		return fmt.Errorf("make the relay: %w", err)
	}
	var reloading sync.WaitGroup
	defer reloading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reloading.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-env.Reloads:
			}
			err := r.Reload(ctx, relay.Change{Sinks: env.Sinks, Router: rt, Memory: env.Plan.Memory, ShutdownTimeout: env.Plan.ShutdownTimeout})
			env.Logger.Info("reloaded", "error", err)
		}
	})
	return r.Run(ctx)
}

// TestSim runs the engine through thousands of random schedules: two and three sinks, verbs, reconciling, crashes,
// lost logs, and everything else that a World does.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		single(t, engine)
		return
	}
	stats, seed, err := many(t, engine, count(), sim.Options{Seed: *firstFlag, CountDuplicates: *countFlag})
	t.Logf("%+v", stats)
	if err != nil {
		t.Fatalf("seed %d: %v\nrun it again: go test ./test/sim -run TestSim -sim.seed=%d -v", seed, err, seed)
	}
}

// count is how many schedules to run.
func count() int {
	if *schedules > 0 {
		return *schedules
	}
	if n, err := strconv.Atoi(os.Getenv("TAILBOX_SIM_SCHEDULES")); err == nil && n > 0 {
		return n
	}
	return 2000
}
