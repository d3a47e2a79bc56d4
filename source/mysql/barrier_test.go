package mysql

import "testing"

func TestPlaces(t *testing.T) {
	t.Parallel()
	order := []string{"a:b.000009:4", "a:b.000009:18446744073709551615", "a:b.000010:4", "a:b.999999:5", "a:b.1000000:4"}
	for i := range order {
		p, err := parsePlace(order[i])
		if err != nil || p.String() != order[i] {
			t.Errorf("%s was read as %s, %v", order[i], p, err)
		}
		for j := range order {
			q, _ := parsePlace(order[j])
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := p.compare(q); got != want {
				t.Errorf("%s compared with %s: %d, want %d", p, q, got, want)
			}
		}
	}
	for _, bad := range []string{"", "a", ":4", "a:", "a:-1", "a:b"} {
		if p, err := parsePlace(bad); err == nil {
			t.Errorf("%q was read as %s", bad, p)
		}
	}
}
