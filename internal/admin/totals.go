package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tailbox/tailbox/internal/history"
)

// Totals returns what the points of a history are made of. The counts are those since the process started, as Prometheus sees them.
func (m *Metrics) Totals() history.Point {
	all := func(*dto.Metric) bool { return true }
	return history.Point{
		Received:           int(sum(m.messages.received, all)),
		Delivered:          int(sum(m.messages.delivered, all)),
		Failed:             int(sum(m.sinks.attempts, func(one *dto.Metric) bool { return hasLabel(one, "result", "failed") })),
		Dead:               int(sum(m.messages.dead, all)),
		LagSeconds:         most(m.source.lagSeconds),
		UndeliveredSeconds: most(m.sinks.oldestUndelivered),
	}
}

// sum adds up the counters of a collector that are wanted, and most is the highest of its gauges.
func sum(c prometheus.Collector, wanted func(*dto.Metric) bool) (total float64) {
	each(c, func(one *dto.Metric) {
		if wanted(one) {
			total += one.GetCounter().GetValue()
		}
	})
	return total
}

func most(c prometheus.Collector) (highest float64) {
	each(c, func(one *dto.Metric) { highest = max(highest, one.GetGauge().GetValue()) })
	return highest
}

func each(c prometheus.Collector, do func(*dto.Metric)) {
	found := make(chan prometheus.Metric)
	go func() {
		defer close(found)
		c.Collect(found)
	}()
	for one := range found {
		var value dto.Metric
		if one.Write(&value) == nil {
			do(&value)
		}
	}
}

func hasLabel(one *dto.Metric, name, value string) bool {
	for _, l := range one.GetLabel() {
		if l.GetName() == name {
			return l.GetValue() == value
		}
	}
	return false
}
