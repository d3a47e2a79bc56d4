package sqlstore

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// completeBytes bounds what Complete reads into memory.
const completeBytes = 16 << 20

// Complete reads the messages that are not all copied again from the user's table, by read, which returns none where the row or the
// table is gone. What the table says now decides whether they can be delivered: max_message may have been raised, a column mended. Group
// and position stay. Once more than 16 MiB were read, further ones are left out, and, where ps is a part of a lane, all that
// follows: cut says so. It works in place.
func Complete(ctx context.Context, ps []checkpoint.Parked, lane bool,
	read func(ctx context.Context, table, id string) ([]*outbox.Message, error),
) (out []checkpoint.Parked, cut bool, err error) {
	bytes := 0
	out = ps[:0]
	for _, p := range ps {
		id := TableID(&p)
		if !p.InTable || outbox.IsStandInID(id) {
			out = append(out, p)
			continue
		}
		if bytes > completeBytes {
			if cut = true; lane {
				return out, cut, nil
			}
			continue
		}
		found, err := read(ctx, p.Message.Table, id)
		if err != nil {
			return nil, false, err
		}
		var fresh *outbox.Message
		if len(found) > 0 {
			fresh = found[0]
			bytes += len(fresh.Payload)
		}
		CompleteFrom(&p, fresh)
		out = append(out, p)
	}
	return out, cut, nil
}
