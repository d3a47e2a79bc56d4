// Command bench measures tailbox against a bare reader of the same log: throughput, processor time, memory, latency.
//
// Every figure of the relay stands beside one of a bare reader (package slot: it walks the protocol, counts inserts and
// confirms) that ran in the same minutes, on the same servers and the same backlog; runs alternate, and each is a
// process of its own. Compare ratios, not absolutes. Nothing fails here: figures and PASS or MISS are printed.
//
//	go run ./test/bench                      everything
//	go run ./test/bench -only discard,kafka  some of it; -list names all
//
// A drain is measured from when the server begins to send on the slot until the slot's confirmed_flush_lsn has reached the
// end of the backlog, for both; processor time and memory are those of the whole process, start and stop included.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// options are the flags.
type options struct {
	binary, postgres, only string
	rounds                 int
	rows, backlog, largest int
	list                   bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		exit(bare(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.binary, "binary", "bin/tailbox", "the relay `FILE`")
	flag.StringVar(&o.postgres, "postgres", "17", "major `VERSION` of Postgres")
	flag.StringVar(&o.only, "only", "", "`LIST` of scenarios, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each run is repeated")
	flag.IntVar(&o.rows, "rows", 400_000, "rows of a backlog")
	flag.IntVar(&o.backlog, "backlog", 10_000_000, "rows of the largest backlog, for memory")
	flag.IntVar(&o.largest, "transaction", 1_000_000, "rows of the largest transaction, for memory")
	flag.BoolVar(&o.list, "list", false, "list the scenarios")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// scenario is one part of the benchmark.
type scenario struct {
	name, about string
	run         func(context.Context, *bench) error
}

func scenarios() []scenario {
	return []scenario{
		{"discard", "bare reader and relay with the sink discard and keep", runDiscard},
		{"kafka", "bare reader with Client.Produce, and relay to Kafka with keep", runKafka},
		{"delete", "bare reader, and relay with discard and delete", runDelete},
		{"mark", "bare reader, and relay with discard and mark", runMark},
		{"hot", "relay to Kafka: all in one group, and spread over 1000", runHot},
		{"memory", "memory within 16MiB: one large transaction, one large backlog", runMemory},
		{"idle", "memory and processor time of a relay with nothing to do", runIdle},
		{"latency", "from before the insert to the consumer, at 2000 messages a second, delete", runLatency},
		{"http", "an endpoint that takes 10 ms: single with 256 at once, and one hot group by array", runHTTP},
	}
}

func run(ctx context.Context, o options) (err error) {
	all := scenarios()
	chosen := strings.Split(o.only, ",")
	for _, name := range chosen {
		if name != "" && !slices.ContainsFunc(all, func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("choose scenario %q: there is none; see -list", name)
		}
	}
	if o.list {
		for _, s := range all {
			fmt.Printf("%-8s %s\n", s.name, s.about)
		}
		return nil
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, s := range all {
		if o.only != "" && !slices.Contains(chosen, s.name) {
			continue
		}
		fmt.Printf("\n%s: %s\n", s.name, s.about)
		if err := s.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Println()
	b.table.print(os.Stdout)
	return nil
}
