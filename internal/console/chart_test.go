package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/internal/history"
)

func TestCharts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	points := []history.Point{
		{At: now.Add(-2 * time.Hour), Delivered: 900}, // before the chart
		{At: now.Add(-10 * time.Minute), Delivered: 40, UndeliveredSeconds: 130},
		{At: now.Add(-50 * time.Second), Delivered: 3, Failed: 1},
		{At: now.Add(-10 * time.Second), Delivered: 4, LagSeconds: 7},
	}
	columns := inColumns(points, now, func(column float64, p *history.Point) float64 { return column + float64(p.Delivered) })
	want := make([]float64, 120)
	want[119], want[118], want[99] = 4, 3, 40
	if !slices.Equal(columns, want) {
		t.Errorf("columns: %v", columns)
	}
	for _, c := range []struct {
		points []history.Point
		texts  []string
	}{
		{nil, []string{"</strong> 0, at most 0 in the last hour", "</strong> now, at most now in the last hour", `points="0,40.0 1,40.0 `}},
		{points, []string{"Delivered a minute</strong> 7, at most 80 in the last hour", "Failed attempts a minute</strong> 1, at most 2 in the last hour",
			"Oldest undelivered</strong> 7 s, at most 2 min in the last hour", "99,1.0 ", "118,37.1 119,36.1 "}},
	} {
		var text strings.Builder
		if err := charts(c.points, now).Render(&text); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.texts {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
	}
}
