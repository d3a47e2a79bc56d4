package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/internal/history"
)

type statsAnswer struct {
	Points []history.Point `json:"points"`
}

const (
	chartTime   = time.Hour
	columnTime  = 30 * time.Second
	chartHeight = 40
)

// charts draw the last hour of this process.
func charts(points []history.Point, now time.Time) g.Node {
	perMinute := func(name string, of func(*history.Point) int) g.Node {
		last := 0
		for i := range points {
			if now.Sub(points[i].At) < time.Minute {
				last += of(&points[i])
			}
		}
		columns := inColumns(points, now, func(column float64, p *history.Point) float64 {
			return column + float64(of(p))*float64(time.Minute/columnTime)
		})
		return chart(name, columns, float64(last), func(v float64) string { return strconv.Itoa(int(v)) })
	}
	behind := func(p *history.Point) float64 { return max(p.UndeliveredSeconds, p.LagSeconds) }
	older := inColumns(points, now, func(column float64, p *history.Point) float64 { return max(column, behind(p)) })
	last := 0.0
	if n := len(points); n > 0 {
		last = behind(&points[n-1])
	}
	return h.Div(h.Class("charts"),
		perMinute("Delivered a minute", func(p *history.Point) int { return p.Delivered }),
		perMinute("Failed attempts a minute", func(p *history.Point) int { return p.Failed }),
		chart("Oldest undelivered", older, last, seconds))
}

// inColumns puts points into the columns of a chart that ends now: add puts a point into its column.
func inColumns(points []history.Point, now time.Time, add func(column float64, p *history.Point) float64) []float64 {
	columns := make([]float64, chartTime/columnTime)
	for i := range points {
		if back := int(now.Sub(points[i].At) / columnTime); back >= 0 && back < len(columns) {
			column := &columns[len(columns)-1-back]
			*column = add(*column, &points[i])
		}
	}
	return columns
}

// chart draws one value over time, and says its last and its highest: nobody has to see the drawing.
func chart(name string, columns []float64, last float64, say func(float64) string) g.Node {
	highest := last
	for _, v := range columns {
		highest = max(highest, v)
	}
	var line strings.Builder
	for i, v := range columns {
		y := float64(chartHeight)
		if highest > 0 {
			y -= v / highest * (chartHeight - 1)
		}
		fmt.Fprintf(&line, "%d,%.1f ", i, y)
	}
	return h.Figure(
		h.FigCaption(h.Strong(g.Text(name)), g.Text(" "+say(last)+", at most "+say(highest)+" in the last hour")),
		g.El("svg", g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", len(columns)-1, chartHeight)), g.Attr("preserveAspectRatio", "none"), g.Attr("aria-hidden", "true"),
			g.El("polyline", g.Attr("points", line.String()), g.Attr("vector-effect", "non-scaling-stroke"))))
}
