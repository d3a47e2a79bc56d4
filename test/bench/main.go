// Command bench measures tailbox against a bare reader of the same log: throughput, processor time, memory, latency.
//
// Every figure of the relay stands beside one of a bare reader (package slot: it walks the protocol, counts inserts and
// confirms) that ran in the same minutes, on the same servers and the same backlog; runs alternate, and each is a
// process of its own. Compare ratios, not absolutes. Nothing fails here: figures and PASS or MISS are printed.
//
//	go run ./test/bench                      everything
//	go run ./test/bench -only discard,kafka  some of it; -list names all
//	go run ./test/bench -only drain          all whose names begin with "drain-": one for each of the other databases
//	go run ./test/bench -before FILE         this version beside an earlier one, in alternating pairs, without bare readers
//
// The bare readers of the other databases are go-mysql's BinlogSyncer, set up as fast as it goes and decoding the rows of the
// outbox, and the driver's change stream cursor with the relay's pipeline and batches.
//
// A drain of Postgres is measured from when the server begins to send on the slot until the slot's confirmed_flush_lsn has reached
// the end of the backlog, for both; one of another database from when the process has the log opened until a bare reader has read
// the last row, and a relay's checkpoint has passed it. Processor time and memory are those of the whole process, its start included.
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

// flags are those of the command line.
type flags struct {
	binary, before, postgres, only, pqcdc string
	rounds                                int
	rows, backlog, largest                int
	list                                  bool
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "bare":
			exit(bare(os.Args[2:]))
		case "poller":
			exit(poller(os.Args[2:]))
		case "bare-mysql":
			exit(bareMySQL(os.Args[2:]))
		case "bare-mongo":
			exit(bareMongo(os.Args[2:]))
		}
	}
	var o flags
	flag.StringVar(&o.binary, "binary", "bin/tailbox", "the relay `FILE`")
	flag.StringVar(&o.before, "before", "", "the relay `FILE` of an earlier version: each round runs both, in turn, and no bare reader")
	flag.StringVar(&o.postgres, "postgres", "17", "major `VERSION` of Postgres")
	flag.StringVar(&o.pqcdc, "go-pq-cdc", "bin/rivals", "the `FILE` built of test/rivals, for scenario rivals")
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
	all := []scenario{
		{"discard", "bare reader and relay with the sink discard and keep", runDiscard},
		{"kafka", "bare reader with Client.Produce, and relay to Kafka with keep", runKafka},
		{"delete", "bare reader, and relay with discard and delete", runDelete},
		{"mark", "bare reader, and relay with discard and mark", runMark},
		{"hot", "relay to Kafka: all in one group, and spread over 1000", runHot},
		{"memory", "memory within 16MiB: one large transaction, one large backlog", runMemory},
		{"idle", "memory and processor time of a relay with nothing to do", runIdle},
		{"latency", "from before the insert to the consumer, at 2000 messages a second, delete", runLatency},
		{"http", "an endpoint that takes 10 ms: single with 256 at once, and one hot group by array", runHTTP},
		{"console", "answers of the API over a dead letter for each four rows, and deliveries beside ten clients that page", runConsole},
	}
	others := []string{kindMySQL, kindMariaDB, kindMongoDB}
	for _, kind := range others {
		all = append(all, scenario{"drain-" + kind, "bare reader, and relay with discard: keep, delete", runDrain(kind)})
	}
	for _, kind := range others {
		all = append(all, scenario{"largest-" + kind, "memory within 16MiB: one large transaction", runLargest(kind)})
	}
	for _, kind := range others {
		all = append(all, scenario{"line-" + kind, "from before the insert to a line on stdout, at 1000 messages a second, delete", runLine(kind)})
	}
	for _, kind := range append([]string{kindPostgres}, others...) {
		all = append(all, scenario{"parked-" + kind, "an endpoint that refuses every second message once: park, retry, settle", runParked(kind)})
		all = append(all, scenario{"writers-" + kind, "what 8 writers get written beside a bare reader, and beside a relay that deletes", runWriters(kind)})
	}
	return append(all, scenario{"rivals", "tailbox, Debezium Server, go-pq-cdc and a SKIP LOCKED poller to Kafka; only by name: make rivals fetches them", runRivals},
		scenario{"rivals-faults", "the same through kill -9, a message that is refused, and a minute of 503", runFaults})
}

// chosen reports whether a list of names and families has a scenario in it: "drain" is all whose names begin with "drain-".
func (s scenario) chosen(list []string) bool {
	family, _, _ := strings.Cut(s.name, "-")
	return slices.Contains(list, s.name) || slices.Contains(list, family)
}

func run(ctx context.Context, o flags) (err error) {
	all := scenarios()
	chosen := strings.Split(o.only, ",")
	for _, name := range chosen {
		if name != "" && !slices.ContainsFunc(all, func(s scenario) bool { return s.chosen([]string{name}) }) {
			return fmt.Errorf("choose scenario %q: there is none; see -list", name)
		}
	}
	if o.list {
		for _, s := range all {
			fmt.Printf("%-16s %s\n", s.name, s.about)
		}
		return nil
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	pairs := &pairs{}
	for _, s := range all {
		if !s.chosen(chosen) && (o.only != "" || strings.HasPrefix(s.name, "rivals")) {
			continue
		}
		fmt.Printf("\n%s: %s\n", s.name, s.about)
		if o.before != "" {
			err = b.pair(ctx, s, pairs)
		} else {
			err = s.run(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Println()
	if o.before != "" {
		pairs.print(os.Stdout)
	} else {
		b.table.print(os.Stdout)
	}
	return nil
}
