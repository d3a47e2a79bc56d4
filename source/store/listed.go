package store

import (
	"encoding/json"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// A Listed is a parked delivery as operators see it.
type Listed struct {
	checkpoint.Parked
	// ParkedAt is when it was parked first, ChangedAt when its state changed last.
	ParkedAt, ChangedAt time.Time
	// NextAttemptAt is when it is due; zero if it waits for another delivery, or for an operator.
	NextAttemptAt time.Time
}

// An Asked is a row of tailbox_request as operators see it: a request with what became of it. Nobody asks with the verb feedback: such a row counts
// failures of feedback.
type Asked struct {
	checkpoint.Request
	// RequestedAt and DoneAt are by the database's clock. DoneAt is zero until the request is carried out.
	RequestedAt, DoneAt time.Time
	Result              RequestResult
	// Selects is the selection as it stands in the database, from which Selection is read if that is possible.
	Selects json.RawMessage
}

// MostSelection is the size of a selection in bytes that a list of requests shows. OmittedSelection, as JSON, stands for a larger one: that of an
// edit holds the payload.
const (
	MostSelection    = 64 << 10
	OmittedSelection = `{"omitted":"it is larger than 64 KiB: ask for this request alone"}`
)

// ReadAsked fills in the selection and the result from their columns. Somebody may have written either by hand: what cannot be read stays empty, so
// that the list shows the rest.
func (a *Asked) ReadAsked(selection string, result *string) {
	a.Selects = json.RawMessage(selection)
	if err := json.Unmarshal(a.Selects, &a.Selection); err != nil {
		a.Selection = checkpoint.Selection{}
	}
	if r, err := ReadResult(a.ID, result); err == nil {
		a.Result = *r
	}
}
