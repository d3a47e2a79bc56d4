package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/store"
)

// A verb is a request on its way: what is asked for, and how it is told.
type verb struct {
	request checkpoint.Request
	// done is the past tense with a noun, such as "replayed 3 deliveries".
	done func(changed int) string
	// groups: it is about groups, instead of deliveries.
	groups bool
	// noWait: do not wait until it is carried out.
	noWait bool
	// later says what becomes of a request that is left for a relay to come.
	later string
}

// perform writes the request and waits until it is carried out: by the relay that runs, or, where none does, here.
func (v *verb) perform(ctx context.Context, sh *cli.Shell, t *Target) error {
	id, err := t.Ask(ctx, &v.request)
	if err != nil {
		return err
	}
	if v.noWait {
		_, err := fmt.Fprintf(sh.Out, "asked: request %d\n", id)
		return err
	}
	told := tellProgress(ctx, sh, t, id)
	result, err := t.Wait(ctx, id)
	told()
	if err != nil {
		return err
	}
	if result == nil {
		_, err := fmt.Fprintf(sh.Out, "written down as request %d: %s\n", id, v.later)
		return err
	}
	return v.tell(sh, result)
}

// progressEvery is how often the progress of a request is told.
const progressEvery = 2 * time.Second

// tellProgress tells, on a terminal, how far a request has come, until stop is called.
func tellProgress(ctx context.Context, sh *cli.Shell, t *Target, id int64) (stop func()) {
	if !sh.Terminal {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// What fails here fails for the one who waits as well.
			if result, done, err := t.Result(ctx, id); err == nil && !done {
				fmt.Fprintf(sh.Err, "%d so far …\n", result.Changed)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// nothingMatched is the note of a request that found no delivery.
const nothingMatched = "nothing matched"

// tell prints what a request did.
func (v *verb) tell(sh *cli.Shell, r *store.RequestResult) error {
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if r.Note == nothingMatched && r.Changed == 0 {
		return errors.New(nothingMatched + ": see tailbox group list and tailbox dead list")
	}
	if r.Changed > 0 || r.Refused == 0 && r.Note == "" {
		fmt.Fprintln(sh.Out, v.done(r.Changed))
	}
	if r.NewID != "" && r.Changed > 0 {
		fmt.Fprintf(sh.Out, "its new id is %s\n", r.NewID)
	}
	if r.Note != "" {
		fmt.Fprintln(sh.Out, r.Note)
	}
	if r.Refused > 0 {
		one, many := "delivery is left as it was", "deliveries are left as they were"
		if v.groups {
			one, many = "group still waits", "groups still wait"
		}
		return fmt.Errorf("%s: %s", cli.Count(r.Refused, one, many), r.Why)
	}
	return nil
}
