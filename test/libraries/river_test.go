package libraries_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// paid are the arguments of a job.
type paid struct {
	Order int `json:"order"`
}

// Kind implements river.JobArgs.
func (paid) Kind() string { return "paid" }

// TestRiver: jobs that River inserts are delivered, and River finds them completed.
func TestRiver(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "river.md")
	driver := riverpgxv5.New(p.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	p.must("init")
	p.must("check")
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []int{1, 2} {
		p.inTransaction(func(tx pgx.Tx) error {
			_, err := client.InsertTx(t.Context(), tx, paid{order}, &river.InsertOpts{Queue: "outbox"})
			return err
		})
	}
	lines := p.deliver(2)
	if lines[0].Type != "paid" || string(lines[0].Payload) != `{"order": 1}` && string(lines[0].Payload) != `{"order":1}` {
		t.Errorf("delivered %+v", lines)
	}
	done, err := client.JobList(t.Context(), river.NewJobListParams().Kinds("paid"))
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range done.Jobs {
		if job.State != "completed" || job.FinalizedAt == nil {
			t.Errorf("job %d is %s, finalized at %v", job.ID, job.State, job.FinalizedAt)
		}
	}
}
