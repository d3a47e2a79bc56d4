package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres"
)

const (
	// requestPoll is how often a request's result is looked at, and lockPoll how often the lock is tried where no relay
	// answers.
	requestPoll = 100 * time.Millisecond
	lockPoll    = time.Second
	// lanesAtOnce bounds the lanes of one part of a request that is carried out here.
	lanesAtOnce = 1000
)

// A verb is a request on its way: what is asked for, and how it is told.
type verb struct {
	request checkpoint.Request
	// done is the past tense with a noun, such as "replayed 3 deliveries".
	done func(changed int) string
	// noWait: do not wait until it is carried out.
	noWait bool
	// restart: only a start of the relay carries it out.
	restart bool
}

// perform writes the request and sees to it that it is carried out: by the relay that runs, or, where none does, here.
func (v *verb) perform(ctx context.Context, sh *shell, cfg postgres.Config) error {
	v.request.By = who()
	id, err := pgAsk(ctx, cfg, &v.request)
	if err != nil {
		return err
	}
	if v.noWait {
		fmt.Fprintf(sh.out, "asked: request %d\n", id)
		return nil
	}
	result, err := v.await(ctx, sh, cfg, id)
	if err != nil || result == nil {
		return err
	}
	return v.tell(sh, result)
}

// await waits for the request's result; nil means that it stays for the next start.
func (v *verb) await(ctx context.Context, sh *shell, cfg postgres.Config, id int64) (*postgres.RequestResult, error) {
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	var tried time.Time
	for told := false; ; {
		result, done, err := pgResult(ctx, cfg, id)
		if err != nil || done {
			return result, err
		}
		if time.Since(tried) >= lockPoll {
			tried = time.Now()
			stays, err := v.alone(ctx, sh, cfg, id)
			if err != nil || stays {
				return nil, err
			}
			if !told && result != nil && result.Changed > 0 {
				told = true
				sh.progress("the relay is carrying it out …")
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for request %d: stopped waiting; the relay carries it out all the same", id)
		case <-tick.C:
		}
	}
}

// alone carries out requests here if no relay holds the lock. Stays: the request waits for the next start.
func (v *verb) alone(ctx context.Context, sh *shell, cfg postgres.Config, id int64) (stays bool, err error) {
	store, err := postgres.OpenStore(ctx, cfg)
	if errors.Is(err, checkpoint.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	if v.restart {
		fmt.Fprintf(sh.out, "written down as request %d: no relay is running, so the next tailbox run does it\n", id)
		return true, nil
	}
	for {
		requests, err := store.Requests(ctx)
		if err != nil || len(requests) == 0 || requests[0].ID > id {
			return false, err
		}
		for i := range requests {
			r := &requests[i]
			if r.ID > id {
				return false, nil
			}
			if r.Verb == checkpoint.VerbAcceptGap {
				continue // for a start
			}
			if err := carryOut(ctx, sh, store, r); err != nil {
				return false, fmt.Errorf("carry out request %d: %w", r.ID, err)
			}
			if r.ID == id {
				return false, nil
			}
		}
	}
}

// carryOut does all parts of a request. With the lock held here no lane has a run in flight.
func carryOut(ctx context.Context, sh *shell, store checkpoint.Store, r *checkpoint.Request) error {
	changed := 0
	for {
		lanes, err := store.Lanes(ctx, r, lanesAtOnce)
		if err != nil {
			return err
		}
		done, err := store.Apply(ctx, r, lanes)
		if err != nil || done.Done {
			return err
		}
		changed += done.Changed
		sh.progress("%d so far …", changed)
	}
}

// tell prints what a request did.
func (v *verb) tell(sh *shell, r *postgres.RequestResult) error {
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if r.Changed > 0 || r.Refused == 0 && r.Note == "" {
		fmt.Fprintln(sh.out, v.done(r.Changed))
	}
	if r.NewID != "" && r.Changed > 0 {
		fmt.Fprintf(sh.out, "its new id is %s\n", r.NewID)
	}
	if r.Note != "" {
		fmt.Fprintln(sh.out, r.Note)
	}
	if r.Refused > 0 {
		return fmt.Errorf("%s left as they were: %s", count(r.Refused, "delivery", "deliveries"), r.Why)
	}
	return nil
}

// who names the operator for the audit.
func who() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// count says how many, with the noun in its right form.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
