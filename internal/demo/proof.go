package demo

import (
	"context"
	"errors"
	"fmt"
)

// proof compares what arrived with what was committed.
func (d *demo) proof(ctx context.Context) error {
	d.chapter("Proof")
	if err := d.until(ctx, "an empty outbox", func() (bool, error) {
		n, err := d.shop.left(ctx)
		return n == 0, err
	}); err != nil {
		return err
	}
	var wanted []message
	for _, m := range d.shop.committed {
		if m.kind != "customer.welcomed" {
			wanted = append(wanted, m)
		}
	}
	ledger, twice := d.ledger.snapshot()
	sent, sentTwice := d.shipping.snapshot()
	if err := errors.Join(compare("ledger", d.shop.committed, ledger), compare("shipping", wanted, sent)); err != nil {
		return err
	}
	d.line("committed %d messages in %d groups; the ledger has %d of %d, shipping %d of %d; nothing is lost", len(d.shop.committed),
		2*orders, len(ledger), len(d.shop.committed), len(sent), len(wanted))
	d.line("in every group the first deliveries came in the order of the commits, at both ends; duplicates: %d", twice+sentTwice)
	d.line("the outbox is empty: each row was deleted in the transaction that settled its last delivery")
	return nil
}

// compare reports whether everything arrived, each group in the order of its commits. A message is known by its type and
// group: the demo writes each type once in a group, and an edit changes the id.
func compare(end string, committed []message, arrived []arrival) error {
	want, got := map[string][]string{}, map[string][]string{}
	for _, m := range committed {
		want[m.group()] = append(want[m.group()], m.kind)
	}
	position := map[string]string{}
	for _, a := range arrived {
		if a.position <= position[a.group] {
			return fmt.Errorf("%s: position %s of group %s does not come after %s", end, a.position, a.group, position[a.group])
		}
		position[a.group] = a.position
		got[a.group] = append(got[a.group], a.kind)
	}
	for group, kinds := range want {
		if fmt.Sprint(got[group]) != fmt.Sprint(kinds) {
			return fmt.Errorf("%s: group %s: got %v, committed %v", end, group, got[group], kinds)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d groups arrived, %d were committed", end, len(got), len(want))
	}
	return nil
}
