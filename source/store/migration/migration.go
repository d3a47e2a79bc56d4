// Package migration knows the numbered steps that bring the relay's tables up to date, and which of them were run. Each database has
// its own steps.
package migration

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/check"
)

// Version is the version of what the relay's tables mean. A relay refuses tables of a higher one. It grows with a migration
// after which a relay that does not know it would do harm; migrations that only add something leave it alone, so that an older relay
// can work until it is replaced.
const Version = 1

// A Step is one numbered step that brings the relay's tables up to date. Each can be repeated: a script does not know what was
// run before it, and MySQL and MongoDB keep what a step did before it failed.
type Step struct {
	Name string // such as 0002_tries
	Text string // the statements, with {checkpoint}, {parked} and {request} for the tables
}

// Read returns the files of the folder migrations in the order of their numbers. It panics if these are not 0001, 0002 and
// so on, because the files are part of the program.
func Read(files fs.FS) []Step {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("read migrations: %d files, %v", len(names), err))
	}
	list := make([]Step, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		base := strings.TrimSuffix(path.Base(name), ".sql")
		if number := fmt.Sprintf("%04d_", i+1); err != nil || !strings.HasPrefix(base, number) {
			panic(fmt.Sprintf("read migrations: %s has not number %s: %v", name, number, err))
		}
		list[i] = Step{Name: base, Text: strings.TrimSpace(string(text)) + "\n"}
	}
	return list
}

// A State tells what was done to the relay's tables.
type State struct {
	// Migration is the number of the last migration that was run; 1 before there was a place to record it.
	Migration int
	// Version is the schema_version that a relay must know.
	Version int
}

// Pending returns the migrations that are missing.
func (s State) Pending(known []Step) []Step { return known[min(s.Migration, len(known)):] }

// Refusal returns why a relay that knows these migrations must not use the tables; nil if it may.
func (s State) Refusal(known []Step) error {
	if s.Version > Version {
		return fmt.Errorf("schema version %d is unknown to this tailbox, which knows %d: %w", s.Version, Version, checkpoint.ErrNewTables)
	}
	if missing := s.Pending(known); len(missing) > 0 {
		return fmt.Errorf("migration %s is missing: %w", Names(missing), checkpoint.ErrOldTables)
	}
	return nil
}

// Finding is what `tailbox check` says of the tables; nil if they are up to date.
func (s State) Finding(known []Step) *check.Finding {
	if s.Version > Version {
		return &check.Finding{Level: check.Problem, What: fmt.Sprintf("the tables tailbox_* are of version %d, this tailbox knows %d", s.Version, Version), Fix: "run a newer tailbox"}
	}
	if missing := s.Pending(known); len(missing) > 0 {
		return &check.Finding{Level: check.Problem, What: "the tables tailbox_* are of an earlier version: they lack " + Names(missing),
			Fix: "run tailbox init, or the script of tailbox init --print, as their owner"}
	}
	if s.Migration > len(known) {
		return &check.Finding{Level: check.Info, What: fmt.Sprintf("a newer tailbox brought the tables tailbox_* to migration %d, and this one knows %d: it can use them", s.Migration, len(known))}
	}
	return nil
}

// Names lists the names.
func Names(list []Step) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}
