package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// AppendRanges writes settled_above as {"sink":[["first","last"],…],…}, sinks in order.
func AppendRanges(b []byte, above map[string][]checkpoint.Range) []byte {
	sinks := make([]string, 0, len(above))
	for sink := range above {
		sinks = append(sinks, sink)
	}
	slices.Sort(sinks)
	b = append(b, '{')
	for i, sink := range sinks {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendJSONText(b, sink)
		b = append(b, ':', '[')
		b = slices.Grow(b, len(above[sink])*rangeBytes)
		for j, r := range above[sink] {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, `["`...)
			b = r.First.Append(b)
			b = append(b, `","`...)
			b = r.Last.Append(b)
			b = append(b, `"]`...)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// rangeBytes is room for one range: two positions, and what stands around them.
const rangeBytes = 2*34 + len(`["",""],`)

// RangesColumn is the column settled_above as a parameter, as text; nil is NULL: there are none.
func RangesColumn(above map[string][]checkpoint.Range) any {
	if len(above) == 0 {
		return nil
	}
	return string(AppendRanges(nil, above))
}

// ParseRanges reads what AppendRanges wrote; empty text is none.
func ParseRanges(text string) (map[string][]checkpoint.Range, error) {
	if text == "" {
		return nil, nil
	}
	var raw map[string][][2]string
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("read settled_above: %w", err)
	}
	above := make(map[string][]checkpoint.Range, len(raw))
	for sink, pairs := range raw {
		for _, pair := range pairs {
			var r checkpoint.Range
			var err error
			if r.First, err = outbox.ParsePosition(pair[0]); err == nil {
				r.Last, err = outbox.ParsePosition(pair[1])
			}
			if err != nil {
				return nil, fmt.Errorf("read settled_above of sink %s: %w", sink, err)
			}
			above[sink] = append(above[sink], r)
		}
	}
	return above, nil
}
