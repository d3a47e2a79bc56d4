package alert

import (
	"strings"
	"testing"
	"time"
)

// Each text says what is wrong, since when, the limit, what to do, and where to look.
func TestTexts(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	place := Place{Pipeline: "shop", Console: "https://relay.example/"}
	for _, test := range []struct {
		m    Message
		want string
	}{
		{Message{Key: Key{SinkFailing, "api"}, Value: int64(time.Minute)}, `[tailbox shop] critical: sink api takes nothing
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.sink_failing: more than 1m0s.
What to do: tailbox sink list shows the state; the relay's log says what the sink answers. Nothing is lost: its deliveries wait in the database.
https://relay.example/sinks`},
		{Message{Key: Key{DeadLetters, "api"}, Value: 1, Detail: "permanent 1"}, `[tailbox shop] warning: 1 dead letter at sink api (causes since this relay began: permanent 1)
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.dead_letters: more than 0.
What to do: tailbox dead list, then replay, edit or drop.
https://relay.example/deliveries?sink=api`},
		{Message{Key: Key{Condition: DeadLetters}, Kind: Repeated, Value: 3}, `[tailbox shop] still warning: 3 dead letters that no sink could be found for
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.dead_letters: more than 0.
What to do: tailbox dead list, then replay, edit or drop.
https://relay.example/deliveries`},
		{Message{Key: Key{Condition: RetainedShare}, Value: 61, Detail: "4096 MiB"}, `[tailbox shop] critical: the server keeps log for the pipeline that is 61% of max_slot_wal_keep_size, which is 4096 MiB: at 100% the slot is lost
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.retained_share: more than 50%.
What to do: tailbox status and tailbox check: what holds the slot back? Settle it before the disk is full or the slot is lost.
https://relay.example/source`},
		{Message{Key: Key{Condition: Restarts}, Value: 3}, `[tailbox shop] critical: the relay began again 3 times, within 10 minutes or before anything was settled
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.restarts: at least 3.
What to do: read the relay's log: why does it end?
https://relay.example/`},
		{Message{Key: Key{Condition: Lag}, Kind: Over, Value: int64(70 * time.Second), Until: since.Add(20 * time.Second)}, `[tailbox shop] over: reading is 1m10s behind
It began at 2026-03-01 12:00:00 UTC and ended at 2026-03-01 12:00:20 UTC, after 20s.
https://relay.example/source`},
		{Message{Key: Key{Held, "api"}, Kind: Left, Value: int64(2 * time.Hour), Detail: "2 groups (held by an operator: order:1)"}, `[tailbox shop] not watched now: waiting for an operator at sink api: 2 groups (held by an operator: order:1), the oldest for 2h0m0s
Since 2026-03-01 12:00:00 UTC, for 1m30s. alerts.held: more than 1h0m0s.
This process stops, or another one relays now. If it still holds, the next relay reports it again; else it is over.
https://relay.example/groups`},
	} {
		m := test.m
		m.Since, m.At, m.Limit = since, since.Add(90*time.Second), DefaultLimits()[m.Condition].Value
		if got := place.Text(&m); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
		if got := (Place{Pipeline: "shop"}).Text(&m); strings.Contains(got, "://") {
			t.Errorf("a link without a console:\n%s", got)
		}
	}
}

// Every condition can say what it is in every kind of message.
func TestEveryText(t *testing.T) {
	t.Parallel()
	said := map[string]Condition{}
	for _, c := range Conditions() {
		for kind := range Left + 1 {
			m := Message{Key: Key{c, "api"}, Kind: kind, At: start(), Since: start(), Until: start(), Value: 42, Limit: 41}
			judge(t, &m)
			what := m.what()
			if other, taken := said[what]; taken && other != c && !(c == VeryManyDead && other == ManyDead || c == Lag && other == Lagging) {
				t.Errorf("%v says what %v says: %s", c, other, what)
			}
			said[what] = c
		}
	}
}

// A name that an application chose is one short line.
func TestShort(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"order:1": "order:1", "a\nb\tc\x00d": "a b c d", strings.Repeat("x", 200): strings.Repeat("x", longest) + "…"} {
		if got := short(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// A message names some of the groups that an operator holds, and counts the others. A group's time goes on while others come and go.
func TestHeldGroups(t *testing.T) {
	t.Parallel()
	w := NewWatch(Config{Sinks: []string{"a"}, Limits: DefaultLimits(), Steady: time.Minute})
	words := []string{"leads", "hold:a/g0"}
	w.Look(start(), factsOf(t, words))
	for i := 1; i <= 6; i++ {
		words = append(words, "hold:a/g"+string(rune('0'+i)))
	}
	w.Look(start().Add(59*time.Minute), factsOf(t, words))
	got := w.Look(start().Add(61*time.Minute), factsOf(t, words))
	const want = "waiting for an operator at sink a: 7 groups (held by an operator: g0, g1, g2, g3, g4, and 2 more), the oldest for 1h1m0s"
	if len(got) != 1 || got[0].what() != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}
