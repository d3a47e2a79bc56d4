package oplog

import (
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Time is a cluster time: seconds in the high half, an ordinal within the second in the low one. The operations of one
// transaction share it, and it orders transactions; so it is the Commit of positions, as it is.
type Time uint64

// TimeOf makes a time of seconds and ordinal.
func TimeOf(t, i uint32) Time { return Time(t)<<32 | Time(i) }

// Timestamp is the time as the driver has it.
func (t Time) Timestamp() bson.Timestamp { return bson.Timestamp{T: uint32(t >> 32), I: uint32(t)} }

// String is seconds:ordinal, in decimal.
func (t Time) String() string {
	b := strconv.AppendUint(make([]byte, 0, 21), uint64(t>>32), 10)
	return string(strconv.AppendUint(append(b, ':'), uint64(t&(1<<32-1)), 10))
}

// ParseTime reads what String wrote.
func ParseTime(s string) (Time, error) {
	sec, ord, ok := strings.Cut(s, ":")
	t, err1 := strconv.ParseUint(sec, 10, 32)
	i, err2 := strconv.ParseUint(ord, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("read cluster time %q: want seconds:ordinal", s)
	}
	return TimeOf(uint32(t), uint32(i)), nil
}
