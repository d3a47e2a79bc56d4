package store

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
)

// pendingWindows is how many windows of rows one call of Pending looks at to find some, so that the session is never busy for long.
const pendingWindows = 10

// ListPending is the list of Pending of checkpoint.Store: rows that are pending and not parked, window by window from a place on, at
// most limit. Window looks at one, adds what it finds to out, and returns where the next one begins, nil being the end. The
// result is the place where the next call goes on; nil = the end was reached.
func ListPending[C any](ctx context.Context, at *C, limit int, out *checkpoint.PendingRows,
	window func(ctx context.Context, at *C, limit int, out *checkpoint.PendingRows) (*C, error),
) (*C, error) {
	var err error
	for windows := 0; at != nil && windows < pendingWindows && len(out.Rows) < limit; windows++ {
		if at, err = window(ctx, at, limit-len(out.Rows), out); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// ResetSelection is what a request selects that replays dead deliveries whose rows of a table were set to pending again with plain SQL (R11).
func ResetSelection(table string, ids []string) checkpoint.Selection {
	return checkpoint.Selection{IDs: ids, Table: table, AllowReorder: true, Refresh: true}
}
