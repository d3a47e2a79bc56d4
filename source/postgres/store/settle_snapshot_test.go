package store

import (
	"testing"
)

func TestSnapshotVisible(t *testing.T) {
	t.Parallel()
	s, err := parseSnapshot("4294967290:4294967310:4294967291,4294967300")
	if err != nil {
		t.Fatal(err)
	}
	for txn, want := range map[uint64]bool{4294967289: true, 4294967290: true, 4294967291: false, 4294967295: true, 3: true, 4: false, 13: true, 14: false, 100: false} {
		if got := s.visible(txn); got != want {
			t.Errorf("visible(%d) = %v, want %v", txn, got, want)
		}
	}
	young := snapshot{xmin: 800, xmax: 810}
	if !young.visible(799) || young.visible(811) {
		t.Error("a young cluster: 799 is visible, 811 is not")
	}
	for _, bad := range []string{"", "1:2", "x:2:", "1:x:", "1:2:x"} {
		if _, err := parseSnapshot(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
