package hostile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestRows: the same seed makes the same rows, another seed makes others, names are unique, and the headers are JSON.
func TestRows(t *testing.T) {
	sum := func(seed uint64) string {
		all, names := sha256.New(), map[string]bool{}
		if err := Rows(rand.New(rand.NewPCG(seed, 0)), Plan{Many: 10, Mixed: 100}, func(row Row) error {
			if names[row.Name] {
				t.Errorf("two rows have the name %q", row.Name)
			}
			names[row.Name] = true
			if row.Headers != nil && !json.Valid(row.Headers) {
				t.Errorf("%s: the headers are no JSON: %.100q", row.Name, row.Headers)
			}
			fmt.Fprintln(all, row.Name, row.Text, row.Hostile, row.Dead)
			all.Write(row.Headers)
			all.Write(row.Payload)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(names) < 200 {
			t.Errorf("%d rows, want 200 or more", len(names))
		}
		return fmt.Sprintf("%x", all.Sum(nil))
	}
	if a, b := sum(1), sum(1); a != b {
		t.Errorf("one seed made rows %s and %s", a, b)
	}
	if a, b := sum(1), sum(2); a == b {
		t.Errorf("two seeds made rows %s", a)
	}
}
