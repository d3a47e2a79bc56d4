package sourcetest

import (
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
)

// An Old is a state of the relay's tables that an earlier version left, with rows in it: a database has it as test data.
type Old struct {
	Name string // tables_NAME
	// Tries of the deliveries afterwards, in the order of messages and sinks, @ if the last one was when the row changed.
	Tries  string
	Loaded string // as LoadedText
	// Missing are the migrations that it lacks, or seems to: no number was recorded before 0003_migration.
	Missing string
}

// OldTables are the states. Each migration adds one.
func OldTables() []Old {
	const tries, loaded, missing = "6@ 0 15@ 2@ 3@ 0 0 1@", "unclean 2, blocked kafka:g kafka:h kafka:j kafka:k, sinks kafka mail, paused mail, held kafka:k, " +
		"started 00000001-000000000000006e-00000000*1, checkpoint 100, sweep pending true, above 1", "0004_dead"
	return []Old{
		{"0001", "4@ 0 15@ 2@ 3@ 0", "unclean 0, blocked kafka:g kafka:h kafka:j, sinks kafka, paused , held , started -, no checkpoint", "0002_tries, 0003_migration, " + missing},
		{"0002", tries, loaded, "0002_tries, 0003_migration, " + missing},
		{"0003", tries, loaded, missing},
	}
}

// LoadedText shows what a store has loaded.
func LoadedText(l *checkpoint.Loaded) string {
	lanes := func(list []checkpoint.Lane) (text string) {
		for i, lane := range list {
			if i > 0 {
				text += " "
			}
			text += lane.Sink + ":" + lane.Group
		}
		return text
	}
	words := func(list []string) string {
		text := fmt.Sprint(list)
		return text[1 : len(text)-1]
	}
	started := l.Started.String()
	if started == "" {
		started = "-"
	}
	text := fmt.Sprintf("unclean %d, blocked %s, sinks %s, paused %s, held %s, started %s, ", l.UncleanStarts, lanes(l.Blocked), words(l.ParkedSinks),
		words(l.PausedSinks), lanes(l.HeldLanes), started)
	if l.Checkpoint == nil {
		return text + "no checkpoint"
	}
	return text + fmt.Sprintf("checkpoint %d, sweep pending %t, above %d", l.Checkpoint.LastCommit, l.Checkpoint.SweepPending, len(l.Checkpoint.SettledAbove))
}
