package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tailbox/tailbox/test/e2e"
)

const (
	memory = 16 << 20 // as large as max_message, which is the least that holds every row
	// mostMemory is what the program bounds its heap by, and 64 MiB more.
	mostMemory      = 2*memory + 4<<20 + 64<<20
	shutdownTimeout = 10 * time.Second
	processEnds     = 2 * time.Second // what the program has after its deliveries were given up
	goodRows        = 50              // of a round
	goodGroups      = 10
	logPerRow       = 1 << 10
)

// A stage is a relay between a table and a destination, and all rows that were written there.
type stage struct {
	tb    testing.TB
	bed   *e2e.Bed
	table table
	dest  *destination
	relay *e2e.Relay
	rand  *rand.Rand

	good    []string // ids
	hostile []*Row   // without what is large in them
	refused int      // rows that the database did not take
	waited  int      // rows that waited for their topic
	round   int
	logged  int64         // size of the log when the round began
	before  int           // rows when the round began
	peak    int64         // memory, of any relay
	latest  time.Duration // of the good rows of a round
	began   time.Time
}

// seed is the environment's, or a new one.
func seed(tb testing.TB) uint64 {
	tb.Helper()
	s := rand.Uint64()
	if text := os.Getenv("TAILBOX_HOSTILE_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("TAILBOX_HOSTILE_SEED: %v", err)
		}
	}
	tb.Logf("TAILBOX_HOSTILE_SEED=%d", s)
	return s
}

// newStage starts a relay. Retry is the configuration of retries.
func newStage(tb testing.TB, kind, retry string, dest *destination) *stage {
	tb.Helper()
	s := &stage{tb: tb, table: newTable(kind), dest: dest, rand: rand.New(rand.NewPCG(seed(tb), 0)), began: time.Now()}
	o := s.table.options()
	o.Top = []string{fmt.Sprintf("memory: %dMiB", memory>>20), "retry: " + retry, fmt.Sprintf("shutdown_timeout: %s", shutdownTimeout)}
	o.Sinks = []string{"out: " + dest.sink}
	s.bed = e2e.NewBed(tb, o)
	s.bed.MustCommand("init")
	s.table.open(tb, s.bed)
	s.relay = s.bed.Start(nil)
	return s
}

// write writes the rows of a round, good ones among them. With kill, the relay is killed somewhere amid them.
func (s *stage) write(plan Plan, kill bool) {
	s.tb.Helper()
	killAt, refused := 0, 0
	if kill {
		killAt = 1 + s.rand.IntN(200+plan.Many+plan.Mixed)
	}
	s.round++
	s.logged, s.before = s.logSize(), len(s.hostile)+len(s.good)
	every := max(1, (250+plan.Many+plan.Mixed)/goodRows)
	good, n := 0, 0
	writeGood := func() {
		s.writeGood(good)
		good++
	}
	err := Rows(s.rand, plan, func(row Row) error {
		if n++; n%every == 0 && good < goodRows {
			writeGood()
		}
		if n == killAt {
			s.kill()
		}
		if _, set := row.Text["topic"]; !set {
			row.set("topic", s.dest.topic)
		}
		if err := s.table.insert(s.tb.Context(), &row); err != nil {
			if refused++; refused > 60+n/10 {
				return fmt.Errorf("the database has refused %d of %d rows: %w", refused, n, err)
			}
			return s.tb.Context().Err()
		}
		row.shrink()
		s.hostile = append(s.hostile, &row)
		return nil
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	for good < goodRows {
		writeGood()
	}
	s.refused += refused
}

// writeGood writes the i-th good row of the round.
func (s *stage) writeGood(i int) {
	s.tb.Helper()
	id := fmt.Sprintf("good-%d-%d", s.round, i)
	row := &Row{Text: map[string]string{"id": id, "type": "T", "topic": s.dest.topic, "group": fmt.Sprintf("good-%d", i%goodGroups)}, Payload: []byte("good")}
	if err := s.table.insert(s.tb.Context(), row); err != nil {
		s.tb.Fatalf("write a good row: %v", err)
	}
	s.good = append(s.good, id)
}

// shrink forgets what is large: a test has many rows. Where the id is too large to be delivered, its size says so.
func (row *Row) shrink() {
	row.Payload, row.Headers = nil, nil
	for part, text := range row.Text {
		if len(text) > 4096 {
			row.Text[part] = strings.Clone(text[:4096])
		}
	}
}

func (s *stage) logSize() int64 {
	state, err := os.Stat(s.bed.LogFile)
	if err != nil {
		return 0 // nothing was logged yet
	}
	return state.Size()
}

// kill ends the relay by kill -9 and starts another one.
func (s *stage) kill() {
	s.tb.Helper()
	s.look()
	s.relay.Kill()
	s.relay = s.bed.Start(nil)
}

// look notes how much memory the relay has had.
func (s *stage) look() {
	s.tb.Helper()
	usage, err := s.relay.Usage()
	if err != nil {
		s.tb.Fatalf("the relay has ended: %v\n%s", err, e2e.Tail(s.bed.LogFile, 20))
	}
	s.peak = max(s.peak, usage.PeakRSS)
}

// stop ends the relay softly, and wants it to obey in time.
func (s *stage) stop() {
	s.tb.Helper()
	s.look()
	began := time.Now()
	s.relay.Stop()
	if took := time.Since(began); took > shutdownTimeout+processEnds {
		s.tb.Errorf("the relay stopped after %v, want at most shutdown_timeout, %v, and %v for the process to end", took, shutdownTimeout, processEnds)
	}
}

// check wants all that holds after a round.
func (s *stage) check() {
	s.tb.Helper()
	s.awaitGood("the round")
	if missing := s.within(decided, time.Second/4, s.undecided); missing != "" {
		s.tb.Fatalf("after %v: %s", decided, missing)
	}
	s.checkSize()
}

// awaitGood wants every good row to be delivered within 10 s, and tells a late one from one that is lost.
func (s *stage) awaitGood(after string) {
	s.tb.Helper()
	began := time.Now()
	s.bed.Eventually(decided, s.missingGood)
	took := time.Since(began)
	s.latest = max(s.latest, took)
	if took > 10*time.Second {
		s.tb.Errorf("the good rows were delivered %.1f s after %s, want 10 at most", took.Seconds(), after)
	}
}

// checkText wants that nothing in the log, and in what commands print about dead letters, steers a terminal or hides what it says.
func (s *stage) checkText() {
	s.tb.Helper()
	log, err := os.ReadFile(s.bed.LogFile)
	if err != nil {
		s.tb.Fatal(err)
	}
	texts := map[string]string{"the log": string(log)}
	for _, command := range []string{"dead list", "group list", "sink list", "status"} {
		texts["tailbox "+command] = s.bed.MustCommand(strings.Fields(command)...)
	}
	for name, text := range sorted(texts) {
		at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) })
		if at >= 0 {
			s.tb.Errorf("%s holds a character that is not for a terminal: %q", name, text[max(0, at-80):min(len(text), at+80)])
		}
	}
}

// checkSize wants memory and log to be small.
func (s *stage) checkSize() {
	s.tb.Helper()
	s.look()
	most := int64(mostMemory)
	if s.bed.Kind == "mongodb" {
		most += 32 << 20 // more is needed where rows of 10 MiB follow one another; it is open which buffers that are
	}
	if s.peak > most {
		s.tb.Errorf("the relay had %d MiB of memory, want at most %d", s.peak>>20, most>>20)
	}
	rows := int64(len(s.hostile) + len(s.good) - s.before)
	if grown := s.logSize() - s.logged; grown > logPerRow*rows {
		s.tb.Errorf("the log has grown by %d bytes for %d rows, want at most %d each", grown, rows, logPerRow)
	}
}

// within asks until nothing is missing, or most is over, and returns what is missing then.
func (s *stage) within(most, every time.Duration, ask func() string) string {
	deadline := time.After(most)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		missing := ask()
		if missing == "" {
			return ""
		}
		select {
		case <-deadline:
			return missing
		case <-tick.C:
		}
	}
}

// missingGood names a good row that was not delivered.
func (s *stage) missingGood() string {
	missing, first := 0, ""
	for _, id := range s.good {
		if s.dest.got.has(id) == 0 {
			if missing++; first == "" {
				first = id
			}
		}
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d good rows were not delivered, such as %s", missing, len(s.good), first)
}

// undecided names a hostile row that is neither delivered nor dead for a reason that names a hostile column.
func (s *stage) undecided() string {
	find := finder(s.parked())
	wrong, first := 0, ""
	for _, row := range s.hostile {
		if why := s.fate(row, s.dest.got.has(row.Text["id"]), find(row)); why != "" {
			if wrong++; wrong <= 20 {
				first += fmt.Sprintf("\n\t%s: %s", row.Name, why)
			}
		}
	}
	if wrong == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d hostile rows are wrong: %s", wrong, len(s.hostile), first)
}

// finder finds the parked delivery of a row, or nil. One whose id cannot be read has another id, and its own group.
func finder(list []parked) func(*Row) *parked {
	byID, byGroup := map[string]*parked{}, map[string]*parked{}
	for i := range list {
		byID[list[i].id], byGroup[list[i].group] = &list[i], &list[i]
	}
	return func(row *Row) *parked {
		if p := byID[row.Text["id"]]; p != nil {
			return p
		}
		return byGroup[row.Text["group"]]
	}
}

// fate tells what is wrong with what became of a row; "" if nothing is.
func (s *stage) fate(row *Row, times int, p *parked) string {
	switch {
	case p == nil && times == 0:
		return "it is neither delivered nor parked"
	case row.Dead && times > 0:
		return "it was delivered, and is beyond a bound"
	case p == nil:
		return ""
	case p.waits(row):
		return "" // the topic may be made any time
	case p.state != "dead":
		return fmt.Sprintf("it is %s: %s: %s", p.state, p.class, p.reason)
	}
	if p.class == "too_large" && strings.Contains(p.reason, "max_message") {
		return "" // it is the columns together
	}
	for _, part := range row.Hostile {
		if regexp.MustCompile(`\b` + strings.TrimSuffix(part, "s") + `s?\b`).MatchString(p.reason) {
			return ""
		}
	}
	return fmt.Sprintf("its dead letter names none of %v: %s: %s", row.Hostile, p.class, p.reason)
}

// waits reports whether a row is retried because nobody has made its topic, which is no message's fault.
func (p *parked) waits(row *Row) bool {
	return p.state != "dead" && p.class == "misconfigured" && slices.Contains(row.Hostile, "topic")
}

// openTopics makes topics that rows were waiting for, and wants these rows to leave tailbox_parked.
func (s *stage) openTopics() {
	s.tb.Helper()
	if s.dest.open == nil {
		return
	}
	find := finder(s.parked())
	var waiting []*Row
	var topics []string
	for _, row := range s.hostile {
		if p := find(row); p != nil && p.waits(row) && strings.HasPrefix(row.Name, "many-") {
			waiting, topics = append(waiting, row), append(topics, row.Text["topic"])
		}
	}
	if len(waiting) == 0 {
		s.tb.Fatal("no row waits for its topic")
	}
	n := s.dest.open(topics)
	s.waited = len(waiting)
	s.bed.MustCommand("sink", "resume", "out")
	s.bed.Eventually(decided, func() string {
		find := finder(s.parked())
		for _, row := range waiting[:n] {
			if p := find(row); p != nil {
				return fmt.Sprintf("%s is %s: %s: %s", row.Name, p.state, p.class, p.reason)
			}
		}
		return ""
	})
}

func (s *stage) parked() []parked {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := s.table.parked(ctx)
	if err != nil {
		s.tb.Fatal(err)
	}
	return list
}

// report says what came of it all.
func (s *stage) report() {
	s.tb.Helper()
	find := finder(s.parked())
	delivered, dead, waiting := 0, 0, 0
	for _, row := range s.hostile {
		switch p := find(row); {
		case p == nil:
			delivered++
		case p.state == "dead":
			dead++
		default:
			waiting++
		}
	}
	rows := len(s.hostile) + len(s.good)
	s.tb.Logf("%d hostile rows: %d delivered, %d dead, %d that wait for their topic (%d before some were made), and %d that the database refused; %d good ones, the last %.1f s after its round; peak memory %d MiB; log %d bytes a row; %.1f s",
		len(s.hostile), delivered, dead, waiting, s.waited, s.refused, len(s.good), s.latest.Seconds(), s.peak>>20, s.logSize()/int64(rows), time.Since(s.began).Seconds())
}
