package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/test/servers"
)

// reloadConfig is a configuration for a database; its parts are drawn. The sink c comes and goes.
const reloadConfig = `
pipeline: shop
source: {%s, reconcile: 0s, tables: [{shape: tailbox}]}
max_message: 64KiB
memory: %dMiB
shutdown_timeout: %ds
retry: {attempts: 100000, initial: %dms, max: %dms, jitter: full}
sinks:
%s
routes:
  - {match: {type: even}, to: [%s]}
  - {to: [%s]}
admin: {listen: "${ADMIN}", tokens: [{name: ada, role: admin, token_file: admin}]}
log: {level: %s}
`

// A reloadLedger is the other end of all sinks: it notes first deliveries by sink and group, and refuses some.
type reloadLedger struct {
	mu    sync.Mutex
	rng   *rand.Rand
	first map[string][]int // by sink and group
	seen  map[string]bool  // by sink and number
	got   map[int]bool     // by the sink a, which every route names
}

func (l *reloadLedger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct{ G, N int }
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case l.rng.IntN(100) == 0:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if key := fmt.Sprint(r.URL.Path, m.N); !l.seen[key] {
		l.seen[key] = true
		lane := fmt.Sprint(r.URL.Path, " group ", m.G)
		l.first[lane] = append(l.first[lane], m.N)
	}
	if r.URL.Path == "/a" {
		l.got[m.N] = true
	}
}

func (l *reloadLedger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.got)
}

// reloadRig is a database that is written to while the relay, a process of its own, reads its configuration again and again.
type reloadRig struct {
	*rig
	source string
	// write writes messages with the numbers from first on, in one transaction.
	write func(ctx context.Context, first, n int) error
	// holder names the session that holds the lock.
	holder func() string
	ledger *reloadLedger
	url    string
	rng    *rand.Rand
	p      *process
	told   int // answers to reloads in what the process has printed
}

const reloadGroups = 20

func typeOf(n int) string {
	if n%reloadGroups%2 == 0 {
		return "even"
	}
	return "odd"
}

func payloadOf(n int) string { return fmt.Sprintf(`{"g": %d, "n": %d}`, n%reloadGroups, n) }

// draw makes a configuration. With all, it has every sink, so that it can begin whatever is parked.
func (r *reloadRig) draw(all bool) string {
	var sinks strings.Builder
	names := []string{"a", "b", "c"}
	if !all && r.rng.IntN(3) == 0 {
		names = names[:2]
	}
	for _, name := range names {
		fmt.Fprintf(&sinks, "  %s: {kind: http, url: \"%s/%s\", format: single, concurrency: %d, timeout: %ds}\n", name, r.url, name, 1+r.rng.IntN(8), 5+r.rng.IntN(20))
	}
	to := func() string {
		all := []string{"a", names[1+r.rng.IntN(len(names)-1)]}
		r.rng.Shuffle(2, func(i, j int) { all[i], all[j] = all[j], all[i] })
		if r.rng.IntN(3) == 0 {
			all = []string{"a"}
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf(reloadConfig, r.source, 1<<r.rng.IntN(7), 5+r.rng.IntN(20), 100+r.rng.IntN(900), 1000+r.rng.IntN(1500), sinks.String(), to(), to(),
		[]string{"info", "debug"}[r.rng.IntN(2)])
}

// broken makes a configuration that cannot be taken over, and says why not.
func (r *reloadRig) broken() (text, why string) {
	good := r.draw(true)
	switch r.rng.IntN(6) {
	case 0:
		return good + "\n}{", "read "
	case 1:
		return good + "speed: 9\n", "unknown key"
	case 2:
		return strings.Replace(good, "kind: http", "kind: carrier-pigeon", 1), "is unknown"
	case 3:
		return strings.Replace(good, "to: [", "to: [nowhere, ", 1), "nowhere"
	case 4:
		return strings.Replace(good, "pipeline: shop", "pipeline: other", 1), "cannot change while the relay runs"
	default:
		return strings.Replace(good, "format: single", "format: single, bearer_file: missing", 1), "missing"
	}
}

// put replaces the file at once, so that nobody reads half of it.
func (r *reloadRig) put(text string) {
	r.t.Helper()
	writeFile(r.t, r.file+".new", text)
	if err := os.Rename(r.file+".new", r.file); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reloadRig) start() {
	r.t.Helper()
	r.p = r.process("run")
	r.told = 0
	until(r.t, "a relay that is ready", func() bool {
		select {
		case <-r.p.ended:
			r.t.Fatalf("the relay has ended:\n%s", r.p.printed())
		default:
		}
		resp, err := http.Get("http://" + r.env["ADMIN"] + "/readyz")
		if err == nil {
			_ = resp.Body.Close() // only the status counts
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	// It stands by, and is ready, until the server has noticed that the session of one that was killed is gone.
	until(r.t, "the lock", func() bool { return strings.Contains(r.p.printed(), "msg=tailing") })
}

const inForce, notInForce = "the configuration was read again, and is in force", "the configuration was not reloaded"

// reloaded waits for what comes of a reload, and returns its line of the log.
func (r *reloadRig) reloaded() string {
	r.t.Helper()
	var answers []string
	until(r.t, "the end of a reload", func() bool {
		answers = nil
		for line := range strings.Lines(r.p.printed()) {
			if strings.Contains(line, inForce) || strings.Contains(line, notInForce) {
				answers = append(answers, line)
			}
		}
		return len(answers) > r.told
	})
	r.told++
	return answers[r.told-1]
}

// reload has the file read again, by signal or by the API.
func (r *reloadRig) reload() string {
	r.t.Helper()
	if r.rng.IntN(2) == 0 {
		r.p.signal(syscall.SIGHUP)
		return r.reloaded()
	}
	status, text := r.call(http.MethodPost, "/config:reload")
	line := r.reloaded()
	if in := strings.Contains(line, inForce); in != (status == http.StatusOK) || !in && status != http.StatusUnprocessableEntity {
		r.t.Errorf("the API answered %d %s, and the log has %s", status, text, line)
	}
	return line
}

// call calls the API.
func (r *reloadRig) call(method, path string) (status int, text string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.env["ADMIN"]+"/api/v1"+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf("admin"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// writing writes messages until stop is called, which returns how many there are. It keeps a backlog, of a bounded size.
func (r *reloadRig) writing() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	written, failed := make(chan int, 1), make(chan error, 1)
	go func() {
		n := 0
		defer func() { written <- n }()
		for ctx.Err() == nil {
			if n-r.ledger.count() > 1500 {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
				continue
			}
			if err := r.write(context.WithoutCancel(ctx), n, 20); err != nil {
				failed <- err
				return
			}
			n += 20
		}
	}()
	return sync.OnceValue(func() int {
		cancel()
		n := <-written
		select {
		case err := <-failed:
			r.t.Error(err)
		default:
		}
		return n
	})
}

// underLoad reloads again and again, with kills between, and looks at what came of the messages.
func (r *reloadRig) underLoad() {
	t := r.t
	t.Helper()
	r.ledger = &reloadLedger{rng: rand.New(rand.NewPCG(r.rng.Uint64(), 2)), first: map[string][]int{}, seen: map[string]bool{}, got: map[int]bool{}}
	server := httptest.NewServer(r.ledger)
	t.Cleanup(server.Close)
	r.url, r.env["ADMIN"] = server.URL, servers.FreeAddr(t)
	writeFile(t, filepath.Join(filepath.Dir(r.file), "admin"), tokenOf("admin")+"\n")
	first := r.draw(true)
	writeFile(t, r.file+".first", first)
	r.put(first)
	r.must("init")
	r.start()
	stop := r.writing()
	defer stop()
	holder := r.holder()
	taken, refused, kills := 0, 0, 0
	for i := 0; taken < reloads; i++ {
		before := r.ledger.count()
		switch r.rng.IntN(8) {
		case 0, 1:
			text, why := r.broken()
			r.put(text)
			refused++
			if line := r.reload(); !strings.Contains(line, notInForce) || !strings.Contains(line, why) {
				t.Errorf("reload %d of a broken file, want %q: %s", i, why, line)
			}
		case 2:
			r.put(r.draw(true))
			r.p.signal(syscall.SIGHUP)
			r.p.signal(syscall.SIGKILL)
			r.p.ends()
			kills++
			r.start()
			holder = r.holder()
		default:
			r.put(r.draw(false))
			line := r.reload()
			if strings.Contains(line, inForce) {
				taken++
			} else if !strings.Contains(line, "parked for sinks") {
				t.Errorf("reload %d: %s", i, line)
			}
		}
		if now := r.holder(); now != holder {
			t.Fatalf("reload %d: the lock was held by %s, and is held by %s\n%s", i, holder, now, r.p.printed())
		}
		until(t, "messages to flow on", func() bool { return r.ledger.count() > before })
	}
	n := stop()
	until(t, "all messages", func() bool { return r.ledger.count() == n })
	until(t, "nothing that waits", func() bool {
		status, text := r.call(http.MethodGet, "/deliveries?state=dead&state=retrying&state=waiting&limit=1")
		return status == http.StatusOK && strings.Contains(text, `"deliveries":[]`)
	})
	r.p.signal(syscall.SIGTERM)
	if code := r.p.ends(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, r.p.printed())
	}
	r.ordered(n)
	if strings.Contains(r.p.printed(), "relay interrupted") {
		t.Errorf("a term was interrupted:\n%s", r.p.printed())
	}
	t.Logf("%d messages, %d reloads taken over, %d refused, %d kills", n, taken, refused, kills)
}

// ordered looks for what was lost, and for what was overtaken in its group at a sink.
func (r *reloadRig) ordered(n int) {
	r.t.Helper()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	for i := range n {
		if !r.ledger.got[i] {
			r.t.Errorf("message %d was lost", i)
		}
	}
	for lane, numbers := range r.ledger.first {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] < numbers[i-1] {
				r.t.Errorf("%s: %d came after %d", lane, numbers[i], numbers[i-1])
			}
		}
	}
}

func newReloadRig(t *testing.T, r *rig, source string) *reloadRig {
	t.Helper()
	needHangup(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rr := &reloadRig{rig: r, source: source, rng: rand.New(rand.NewPCG(seed, 1))}
	rr.holder = func() string {
		var status struct{ Holder json.RawMessage }
		looking := *r
		looking.file += ".first" // what is in the file itself may be broken
		text := looking.must("status", "-o", "json")
		if err := json.Unmarshal([]byte(text), &status); err != nil || len(status.Holder) < 10 {
			t.Fatalf("%v: %s\n%s", err, text, rr.p.printed())
		}
		return string(status.Holder)
	}
	return rr
}

const pgSource = `kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}"`

func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, newRig(t, "to come"), pgSource)
	writer, err := pgx.Connect(t.Context(), r.env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close(context.Background()) })
	r.write = func(ctx context.Context, first, n int) error {
		tx, err := writer.Begin(ctx)
		if err != nil {
			return err
		}
		for i := first; i < first+n; i++ {
			if _, err := tx.Exec(ctx, "INSERT INTO outbox (type, message_group, payload) VALUES ($1, $2, $3)", typeOf(i), fmt.Sprint("g", i%reloadGroups), payloadOf(i)); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	}
	r.underLoad()
}

func TestReloadUnderLoadMySQL(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := servers.SharedMySQL(t, kind)
			name := server.NewDatabase(t)
			r := newReloadRig(t, &rig{t: t, file: write(t, "tailbox.yaml", "to come"), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}},
				"kind: "+kind+`, url: "${DATABASE_URL}"`)
			r.write = func(ctx context.Context, first, n int) error {
				var values []string
				for i := first; i < first+n; i++ {
					values = append(values, fmt.Sprintf("('%s', 'g%d', '%s')", typeOf(i), i%reloadGroups, payloadOf(i)))
				}
				return server.Exec(ctx, name, "INSERT INTO outbox (type, message_group, payload) VALUES "+strings.Join(values, ", "))
			}
			r.underLoad()
		})
	}
}

func TestReloadUnderLoadMongoDB(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	name := server.NewDatabase(t)
	r := newReloadRig(t, &rig{t: t, file: write(t, "tailbox.yaml", "to come"), env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": name}},
		`kind: mongodb, url: "${DATABASE_URL}", schema: "${DATABASE}"`)
	db := server.Client(t).Database(name)
	r.holder = func() string {
		var lease struct {
			Epoch int64 `bson:"lease_epoch"`
		}
		if err := db.Collection("tailbox_checkpoint").FindOne(t.Context(), bson.D{}).Decode(&lease); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint("epoch ", lease.Epoch)
	}
	r.write = func(ctx context.Context, first, n int) error {
		var all []any
		for i := first; i < first+n; i++ {
			all = append(all, bson.D{{Key: "type", Value: typeOf(i)}, {Key: "message_group", Value: fmt.Sprint("g", i%reloadGroups)},
				{Key: "payload", Value: bson.D{{Key: "g", Value: i % reloadGroups}, {Key: "n", Value: i}}}})
		}
		_, err := db.Collection("outbox").InsertMany(ctx, all)
		return err
	}
	r.underLoad()
}
