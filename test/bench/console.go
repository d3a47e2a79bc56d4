package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

const (
	consoleToken   = "the-token-of-the-benchmark"
	consoleClients = 10
	tailClients    = 20
	consoleAsks    = 200 // pages and searches that are measured in each round
	// mostAnswer is the most that an answer may take.
	mostAnswer = 300 * time.Millisecond
	// behindDead is how many deliveries wait behind each dead letter.
	behindDead = 10
	// drained is how many rows are drained for each of -rows: a rate of two seconds would tell nothing.
	drained = 4
)

// seedDead parks dead letters, with those that wait behind each, in groups of their own.
const seedDead = `INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, attempts, tries, last_error, error_class, type, topic,
	payload, changed_at)
SELECT $1, 'out', 'public.outbox', 'dead:' || d, '00000001-' || lpad(to_hex(d), 16, '0') || '-' || lpad(to_hex(n), 8, '0'), 'dead-' || md5(d || '/' || n), CASE n WHEN 0 THEN 'dead' ELSE 'waiting' END,
	true, false, 15, 15, CASE n WHEN 0 THEN 'post to https://example.com: answered 503 ' || repeat('x', 80) END,
	CASE n WHEN 0 THEN (ARRAY['permanent', 'rejected', 'timeout'])[1 + d % 3] END, 'order.' || d % 20, 'order', convert_to(repeat('p', 500), 'UTF8'), now() - ($2 - d) * interval '1 millisecond'
FROM generate_series(1, $2) d, generate_series(0, $3) n`

// runConsole measures answers of the API over very many dead letters, and how much of the deliveries of other groups is left while clients read
// page after page.
func runConsole(ctx context.Context, b *bench) (err error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	db.token = consoleToken
	r, err := db.relay(ctx, false, withTopic(keepTable, "discarded"), discardSink)
	if err != nil {
		return err
	}
	dead := b.rows / 4
	fmt.Printf("  %d dead letters, and %d that wait behind them\n", dead, dead*behindDead)
	if err := db.exec(ctx, seedDead, strings.TrimPrefix(r.slot, "tailbox_"), dead, behindDead); err != nil {
		return err
	}
	if err := db.exec(ctx, "VACUUM ANALYZE tailbox_parked"); err != nil { // the server of the benchmark does not by itself
		return err
	}
	c := &consoleClient{base: "http://" + r.admin + "/api/v1", laps: map[string][]time.Duration{}}
	for range b.rounds {
		if err := db.during(ctx, r, func(int) error { return c.measure(ctx) }); err != nil {
			return err
		}
	}
	for _, what := range []string{"first page", "search by id", "summary"} {
		laps := c.laps[what]
		p50, p99 := e2e.Quantile(laps, 0.5), e2e.Quantile(laps, 0.99)
		b.table.measure("API, "+what+", p50", true, p50.Seconds()*1000)
		b.table.note("API, "+what, fmt.Sprintf("p50 %.1f ms, p99 %.1f ms of %d", p50.Seconds()*1000, p99.Seconds()*1000, len(laps)), p99 <= mostAnswer, "<= "+mostAnswer.String())
	}
	if err := db.beside(ctx, r, "ten clients paging", consoleClients, c.page); err != nil {
		return err
	}
	return db.beside(ctx, r, "twenty live tails, one stuck", tailClients, c.tail)
}

// beside drains a backlog of other groups in each round, with clients of the API, and without. start starts so many clients; what it returns stops them, and
// says how much they got.
func (db *base) beside(ctx context.Context, r runner, what string, clients int, start func(context.Context, int) (stop func() int)) error {
	var ratios []float64
	for round := range db.rounds {
		var rates [2]float64 // without clients, and with
		for i := range 2 {
			with := (round + i) % 2
			if err := db.fill(ctx, drained*db.rows, perTxn, spread); err != nil {
				return err
			}
			stop := start(ctx, with*clients)
			d, err := db.run(ctx, r, drained*db.rows)
			got := stop()
			if err != nil {
				return err
			}
			rates[with] = d.rate()
			fmt.Printf("  %s: round %d, %d clients: %.0f msg/s, %d answers\n", what, round+1, with*clients, d.rate(), got)
		}
		ratios = append(ratios, rates[1]/rates[0])
	}
	db.bench.table.measure("API, deliveries with "+what+", of those without", false, ratios...)
	db.bench.table.note("API, deliveries with "+what, spreadOf(ratios, "%.2f")+" of those without", true, "")
	return nil
}

// A consoleClient asks the API.
type consoleClient struct {
	base string
	laps map[string][]time.Duration
}

// A consolePage is a page of deliveries.
type consolePage struct {
	Deliveries []struct{ ID string }
	Next       string
}

func (c *consoleClient) ask(ctx context.Context, path string, into any) (took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+consoleToken)
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	err = json.NewDecoder(resp.Body).Decode(into)
	took = time.Since(began)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask %s: %s: %v", path, resp.Status, into)
	}
	return took, err
}

// measure asks a relay that has just started, one question after the other. Each way of grouping is counted once, because the API keeps what it has counted.
func (c *consoleClient) measure(ctx context.Context) error {
	one := func(what, path string, into any) error {
		took, err := c.ask(ctx, path, into)
		c.laps[what] = append(c.laps[what], took)
		return err
	}
	var page consolePage
	for n := range consoleAsks {
		page = consolePage{}
		if err := one("first page", "/deliveries?order=newest", &page); err != nil {
			return err
		}
		found := consolePage{}
		if err := one("search by id", "/deliveries?id="+page.Deliveries[n%len(page.Deliveries)].ID, &found); err != nil {
			return err
		}
		if len(found.Deliveries) != 1 {
			return fmt.Errorf("search by id: %d deliveries", len(found.Deliveries))
		}
	}
	for _, by := range []string{"class", "type", "sink", "class,type", "class,sink", "type,sink", "class,type,sink"} {
		var summary struct{ Failures []any }
		if err := one("summary", "/deliveries/summary?by="+by, &summary); err != nil {
			return err
		}
	}
	return nil
}

// page has so many clients read page after page until it is stopped, and returns how many pages they have read. They begin when the relay answers.
func (c *consoleClient) page(ctx context.Context, clients int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var pages atomic.Int64
	var reading sync.WaitGroup
	for range clients {
		reading.Go(func() {
			var at consolePage
			for ctx.Err() == nil {
				query := url.Values{"order": {"newest"}}
				if at.Next != "" {
					query.Set("cursor", at.Next)
				}
				at = consolePage{}
				if _, err := c.ask(ctx, "/deliveries?"+query.Encode(), &at); err == nil {
					pages.Add(1)
				} else if ctx.Err() == nil {
					pause(10 * time.Millisecond) // the relay does not listen yet
				}
			}
		})
	}
	return func() int {
		cancel()
		reading.Wait()
		return int(pages.Load())
	}
}

// tail has so many clients watch deliveries until it is stopped, and returns how many they have seen. The first one never reads what it is sent.
func (c *consoleClient) tail(ctx context.Context, clients int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var seen atomic.Int64
	var watching sync.WaitGroup
	for n := range clients {
		watching.Go(func() {
			for ctx.Err() == nil {
				if err := c.watch(ctx, n == 0, &seen); err != nil && ctx.Err() == nil {
					pause(10 * time.Millisecond) // the relay does not listen yet
				}
			}
		})
	}
	return func() int {
		cancel()
		watching.Wait()
		return int(seen.Load())
	}
}

// watch counts deliveries until the stream ends.
func (c *consoleClient) watch(ctx context.Context, stuck bool, seen *atomic.Int64) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/tail?payload=true", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+consoleToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if stuck {
		<-ctx.Done()
		return nil
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			seen.Add(1)
		}
	}
	return nil
}
