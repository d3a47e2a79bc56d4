package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is what is printed at the end.
type table struct {
	lines []string
	// measured are the figures that two versions are compared by.
	measured []measure
}

// A measure is one figure of the relay, of each round.
type measure struct {
	name   string
	less   bool // less is better
	values []float64
}

// measure notes a figure of the relay that more is better of, or less.
func (t *table) measure(name string, less bool, values ...float64) {
	t.measured = append(t.measured, measure{name, less, values})
}

// add notes drains and how they compare with others, round by round. A target of 0 means none; cpu likewise.
func (t *table) add(name, against string, ds, others []drain, target, cpu float64) {
	var rates, micros, ratios, cpus []float64
	rss := int64(0)
	for i, d := range ds {
		rates, micros = append(rates, d.rate()), append(micros, d.micros())
		rss = max(rss, d.rss)
		if i < len(others) {
			ratios = append(ratios, d.rate()/others[i].rate())
			cpus = append(cpus, d.micros()/others[i].micros())
		}
	}
	t.measure(name+", msg/s", false, rates...)
	t.measure(name+", µs processor", true, micros...)
	line := fmt.Sprintf("%s\t%s msg/s\t%s µs\t%d MB\t", name, spreadOf(rates, "%.0f"), spreadOf(micros, "%.2f"), rss>>20)
	if ratios != nil {
		line += fmt.Sprintf("%s of %s", spreadOf(ratios, "%.2f"), against)
		if target > 0 {
			line += verdict(median(ratios) >= target, fmt.Sprintf(">= %.2f", target))
		}
		line += fmt.Sprintf(", processor %s", spreadOf(cpus, "%.2f"))
		if cpu > 0 {
			line += verdict(median(cpus) <= cpu, fmt.Sprintf("<= %.2f", cpu))
		}
	}
	t.lines = append(t.lines, line)
}

// note adds a figure of another kind; limit is "" if there is no target.
func (t *table) note(name, figure string, ok bool, limit string) {
	if limit != "" {
		figure += verdict(ok, limit)
	}
	fmt.Printf("  %s: %s\n", name, figure)
	t.lines = append(t.lines, name+"\t\t\t\t"+figure)
}

func verdict(ok bool, limit string) string {
	if ok {
		return " PASS (" + limit + ")"
	}
	return " MISS (" + limit + ")"
}

func (t *table) print(w io.Writer) {
	tab := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tab, "what\trate: median (min-max)\tprocessor a message\tmemory\tcompared, round by round: median (min-max)")
	fmt.Fprintln(tab, strings.Join(t.lines, "\n"))
	_ = tab.Flush() // to the terminal
}

func median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(vs))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// spreadOf is median, least and most.
func spreadOf(vs []float64, format string) string {
	if len(vs) == 0 {
		return "-"
	}
	return fmt.Sprintf(format+" ("+format+"-"+format+")", median(vs), slices.Min(vs), slices.Max(vs))
}
