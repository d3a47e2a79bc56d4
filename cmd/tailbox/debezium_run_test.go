package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// runDebezium runs the relay with Debezium's configuration until stop is called, which returns what it did.
func (r *rig) runDebezium() (stop func() result) {
	return r.inBackground(func(ctx context.Context) result { return r.debezium(ctx, "run") })
}

var typePattern = regexp.MustCompile(`"payload":"Type(\d+)"}$`)

// recordNumber checks that a record is what Debezium makes of a message, and returns its number and its group's.
func recordNumber(t *testing.T, got string) (group, n int) {
	t.Helper()
	digits := typePattern.FindStringSubmatch(got)
	if digits == nil {
		t.Fatalf("record %s has no header eventType", got)
	}
	n, err := strconv.Atoi(digits[1])
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"schema":{"type":"string","optional":false},"payload":`
	want := fmt.Sprintf(text+`"%d"} {"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{\"n\": %d, \"tags\": []}"}`+
		` id={"schema":{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1,"default":"00000000-0000-0000-0000-000000000000"},"payload":"…"}`+
		` eventType=`+text+`"Type%d"}`, n%3, n, n)
	if got != want {
		t.Fatalf("record %s\nwant %s", got, want)
	}
	return n % 3, n
}

// A configuration of Debezium Server runs unchanged, from where Debezium's slot stands: nothing before, everything after.
func TestRunDebezium(t *testing.T) {
	t.Parallel()
	broker := servers.Kafka(t)
	r, topic := debeziumRig(t, strings.Join(broker.Brokers(), ","))
	if err := broker.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	r.sql("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
	r.sql("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.env["SLOT"])
	// Debezium sent the first, and of the second transaction two rows: it confirms the position of a row.
	r.events(0, 5)
	r.events(5, 3)
	r.sql(`SELECT pg_replication_slot_advance($1, (SELECT lsn FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1',
		'publication_names', 'dbz_publication') WHERE get_byte(data, 0) = ascii('I') ORDER BY lsn OFFSET 6 LIMIT 1))`, r.env["SLOT"])
	// It is stopped, and the application goes on.
	r.events(8, 50)
	r.sql("INSERT INTO inventory.other VALUES (1)")
	r.sql("UPDATE inventory.outboxevent SET type = 'x' WHERE payload->>'n' = '3'")
	r.sql("DELETE FROM inventory.outboxevent WHERE payload->>'n' = '4'")
	if got := r.debezium(t.Context(), "init"); got.code != exitDone || strings.Contains(got.out, "slot") {
		t.Fatalf("init: %+v", got)
	}
	if got := r.debezium(t.Context(), "check"); got.code != exitDone {
		t.Fatalf("check: %+v", got)
	}
	stop := r.runDebezium()
	r.events(58, 20)
	next := [3]int{6, 7, 5} // by key: each is a group, whose order is kept
	for _, got := range fetch(t, broker.Brokers(), topic, 73) {
		group, n := recordNumber(t, got)
		if n != next[group] {
			t.Fatalf("record %s: want number %d", got, next[group])
		}
		next[group] += 3
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	var rows int
	if err := r.conn.QueryRow(t.Context(), "SELECT count(*) FROM inventory.outboxevent").Scan(&rows); err != nil || rows != 77 {
		t.Errorf("%d rows in the table, %v, want all 77 that the application left", rows, err)
	}
}

// Debezium itself runs by a configuration, and is stopped or killed; the relay goes on by the same file from the slot as
// Debezium left it, and sends the same records.
func TestRunAfterDebezium(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]os.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := servers.Kafka(t)
			r, topic := debeziumRig(t, strings.Join(broker.Brokers(), ","))
			if err := broker.CreateTopic(topic, 1, nil); err != nil {
				t.Fatal(err)
			}
			debezium, _ := startDebezium(t, r.file)
			slotIs := func(what string) bool {
				var yes bool
				err := r.conn.QueryRow(t.Context(), "SELECT coalesce(bool_or("+what+"), false) FROM pg_replication_slots WHERE slot_name = $1", r.env["SLOT"]).Scan(&yes)
				if err != nil {
					t.Fatal(err)
				}
				return yes
			}
			until(t, "Debezium to read", func() bool { return slotIs("active") })
			confirmed := 0
			for ; confirmed < 60; confirmed += 4 {
				r.events(confirmed, 4)
			}
			fetch(t, broker.Brokers(), topic, confirmed)
			var at string
			if err := r.conn.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&at); err != nil {
				t.Fatal(err)
			}
			next := confirmed
			until(t, "Debezium to confirm", func() bool {
				r.events(next, 1) // it confirms what is before the message that it sent last
				next++
				return slotIs("confirmed_flush_lsn >= '" + at + "'")
			})
			for range 20 {
				r.events(next, 5)
				next += 5
			}
			debezium(end)
			r.events(next, 50)
			next += 50
			if got := r.debezium(t.Context(), "init"); got.code != exitDone {
				t.Fatalf("init: %+v", got)
			}
			stop := r.runDebezium()
			r.events(next, 20)
			next += 20
			seen := make([]int, next)
			fetchUntil(t, broker.Brokers(), topic, func(records []string) bool {
				clear(seen)
				last, distinct := [3]int{-3, -2, -1}, 0
				for _, record := range records {
					group, n := recordNumber(t, record)
					if seen[n]++; seen[n] > 1 {
						continue
					}
					if distinct++; n != last[group]+3 {
						t.Fatalf("group %d: %d comes after %d", group, n, last[group])
					}
					last[group] = n
				}
				return distinct == next
			})
			repeated := 0
			for n, times := range seen {
				if repeated += times - 1; times > 1 && n < confirmed {
					t.Errorf("message %d came %d times, though Debezium had confirmed it", n, times)
				}
			}
			t.Logf("%d messages, %d repeated", next, repeated)
			if got := stop(); got.code != exitDone {
				t.Errorf("run: %+v", got)
			}
		})
	}
}

// startDebezium runs Debezium's engine in a folder until end is called, which sends it a signal and waits.
func startDebezium(t *testing.T, properties string) (end func(os.Signal), folder string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("testdata", "Debezium.java"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(servers.Debezium(t), "*"), program, properties)
	cmd.Dir = t.TempDir() // offsets are below it
	if err := os.Mkdir(filepath.Join(cmd.Dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait := sync.OnceFunc(func() { _ = cmd.Wait() }) // it ends by a signal, or with the test
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, as a rule
		if wait(); said.Len() > 0 {
			t.Logf("Debezium: %s", said.String())
		}
	})
	return func(sig os.Signal) {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		wait()
	}, cmd.Dir
}
