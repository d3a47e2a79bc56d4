package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A placementSpec is one entry of table.fields.additional.placement: column:placement[:alias].
type placementSpec struct {
	column string
	kind   placementKind
	// alias is the name of the header, or of the field of the envelope.
	alias string
}

type placementKind uint8

const (
	placeHeader placementKind = iota
	placeEnvelope
	placePartition
)

func parsePlacement(s string) (placementSpec, error) {
	parts := strings.Split(s, ":")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return placementSpec{}, fmt.Errorf("entry %q must be column:placement or column:placement:alias", s)
	}
	p := placementSpec{column: parts[0], alias: parts[0]}
	if len(parts) == 3 {
		p.alias = parts[2]
	}
	switch strings.ToLower(parts[1]) {
	case "header":
	case "envelope":
		p.kind = placeEnvelope
	case "partition":
		p.kind = placePartition
	default:
		return p, fmt.Errorf("placement of entry %q must be header, envelope or partition", s)
	}
	return p, nil
}

// sameAs reports whether both make one header, one field of the envelope, or the partition. Sinks find headers whatever their case.
func (p placementSpec) sameAs(other placementSpec) bool {
	switch {
	case p.kind != other.kind:
		return false
	case p.kind == placeHeader:
		return strings.EqualFold(p.alias, other.alias)
	}
	return p.kind == placePartition || p.alias == other.alias
}

// A placement puts a column of the row into a delivery.
type placement struct {
	placementSpec
	from reading
	// ignoreMissing: a row without the column gets no placement instead of an error.
	ignoreMissing bool
	// json: the header is written as JSON.
	json   bool
	schema connectSchema
}

// apply places a header or the partition.
func (p *placement) apply(m *outbox.Message, d *sink.Delivery) error {
	c, found := p.from.read(m)
	if !found {
		return p.missing()
	}
	if p.kind == placeHeader {
		value := c.plain()
		if p.json {
			value = p.schema.append(nil, c)
		}
		d.Headers = append(d.Headers, outbox.Header{Name: p.alias, Value: value})
		size := 0
		for i := range d.Headers {
			size += len(d.Headers[i].Name) + len(d.Headers[i].Value)
		}
		if size > outbox.MaxHeaderBytes {
			return fmt.Errorf("place column %s as a header: it has %d bytes, and with it the placed headers have %d, of at most %d: shorten it at the row's writer, "+
				"or place it in the envelope", p.column, len(value), size, outbox.MaxHeaderBytes)
		}
		return nil
	}
	if c.text == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(c.text), 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("place column %s as the partition: %q is not a partition number", p.column, outbox.Shorten(string(c.text)))
	}
	partition := int32(n)
	d.Partition = &partition
	return nil
}

// missing is what becomes of a row without the column.
func (p *placement) missing() error {
	if p.ignoreMissing {
		return nil
	}
	return fmt.Errorf("place column %s: the row has no such column: correct table.fields.additional.placement, or set table.field.additional.missing to ignore", p.column)
}
