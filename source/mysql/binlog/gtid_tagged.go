package binlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-mysql-org/go-mysql/serialization"
)

// parseTaggedGTID reads the GTID event with a tag, which is serialized in a form of its own: numbered fields.
func parseTaggedGTID(h *Header, b []byte) (e GTID, err error) {
	defer func() {
		if p := recover(); p != nil { // the driver trusts lengths
			err = fmt.Errorf("read tagged gtid event: %v: %w", p, ErrProtocol)
		}
	}()
	uuid, number, tag := &serialization.FieldIntFixed{Length: 16}, &serialization.FieldIntVar{}, &serialization.FieldString{}
	committed := &serialization.FieldUintVar{}
	msg := serialization.Message{Format: serialization.Format{Fields: []serialization.Field{
		{Name: "gtid_flags", Type: &serialization.FieldIntFixed{Length: 1}},
		{Name: "uuid", Type: uuid}, {Name: "gno", Type: number}, {Name: "tag", Type: tag},
		{Name: "last_committed", Type: &serialization.FieldIntVar{}}, {Name: "sequence_number", Type: &serialization.FieldIntVar{}},
		{Name: "immediate_commit_timestamp", Type: committed},
		{Name: "original_commit_timestamp", Type: &serialization.FieldUintVar{}, Optional: true},
		{Name: "transaction_length", Type: &serialization.FieldUintVar{}},
		{Name: "immediate_server_version", Type: &serialization.FieldUintVar{}},
		{Name: "original_server_version", Type: &serialization.FieldUintVar{}, Optional: true},
		{Name: "commit_group_ticket", Optional: true},
	}}}
	if err := serialization.Unmarshal(b, &msg); err != nil {
		return e, fmt.Errorf("read tagged gtid event: %w: %w", err, ErrProtocol)
	}
	if len(uuid.Value) != 16 || number.Value <= 0 {
		return e, fmt.Errorf("read tagged gtid event: %w", errors.Join(ErrProtocol, ErrLength))
	}
	e.Origin = AppendUUIDText(nil, uuid.Value)
	if tag.Value != "" {
		e.Origin = append(append(e.Origin, ':'), tag.Value...)
	}
	e.Number = uint64(number.Value)
	e.Committed = time.Unix(int64(h.Time), 0).UTC()
	if committed.Value != 0 {
		e.Committed = microTime(committed.Value)
	}
	return e, nil
}
