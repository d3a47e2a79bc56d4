package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

const (
	// slower is the least that a version may reach of the one before.
	slower = 0.97
	// longest is how many times as many rounds as were asked for a contest may take.
	longest = 3
	// chance is how likely pairs of equal versions may be to lie as far on one side as those that tell.
	chance = 0.05
)

// pairs are the figures of two versions, round by round.
type pairs struct {
	names  []string
	ratios map[string][]float64 // above 1, this version is better
	values map[string][2][]float64
}

// pair runs a scenario with both versions in each round, in turn; either goes first as often as the other. Each contest has a backlog of its own: a second one
// would meet a server that still works for the first. A contest goes on after the last round while its pairs scatter too much to tell.
func (b *bench) pair(ctx context.Context, s scenario, p *pairs) error {
	rounds, binaries := b.rounds, [2]string{b.before, b.binary}
	defer func() { b.rounds, b.binary = rounds, binaries[1] }()
	b.rounds, b.parts = 1, 1
	for b.part = 0; b.part < b.parts; b.part++ {
		told := false
		for round := 0; round < rounds || !told && round < longest*rounds || round%2 == 1; round++ {
			measured, err := b.turns(ctx, s, binaries, round%2)
			if err != nil {
				return err
			}
			told = p.add(measured[0], measured[1])
		}
	}
	return nil
}

// turns runs a scenario once with each version, and returns the figures of each. first is the one that begins.
func (b *bench) turns(ctx context.Context, s scenario, binaries [2]string, first int) (measured [2][]measure, err error) {
	for _, which := range [2]int{first, 1 - first} {
		fmt.Printf(" %s\n", [2]string{"before", "now"}[which])
		b.binary, b.table = binaries[which], table{}
		if err := s.run(ctx, b); err != nil {
			return measured, err
		}
		measured[which] = b.table.measured
	}
	return measured, nil
}

// its are the contests that a scenario runs now: one of them if two versions are compared, else all.
func its[C any](b *bench, contests []C) []C {
	if !b.relays {
		return contests
	}
	b.parts = len(contests)
	return contests[b.part:][:1]
}

// add adds the figures of one round of each version, and reports whether the pairs so far tell of each figure on which side of slower it is.
func (p *pairs) add(before, now []measure) (told bool) {
	if p.ratios == nil {
		p.ratios, p.values = map[string][]float64{}, map[string][2][]float64{}
	}
	told = true
	for i, m := range now {
		if len(m.values) == 0 {
			continue
		}
		if p.ratios[m.name] == nil {
			p.names = append(p.names, m.name)
		}
		was, is := before[i].values[0], m.values[0]
		ratio := is / was
		if m.less {
			ratio = was / is
		}
		p.ratios[m.name] = append(p.ratios[m.name], ratio)
		v := p.values[m.name]
		p.values[m.name] = [2][]float64{append(v[0], was), append(v[1], is)}
		told = told && tell(p.ratios[m.name])
	}
	return told
}

// tell reports whether ratios tell on which side of slower their median is: by the sign test, in which a coin stands for each pair.
func tell(ratios []float64) bool {
	fewer := 0
	for _, r := range ratios {
		if r < slower {
			fewer++
		}
	}
	n := len(ratios)
	fewer = min(fewer, n-fewer)
	tail, term := 0.0, math.Pow(0.5, float64(n))
	for k := range fewer + 1 {
		tail += term
		term *= float64(n-k) / float64(k+1)
	}
	return tail <= chance
}

func (p *pairs) print(w io.Writer) {
	tab := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tab, "what\tbefore: median\tnow: median\tpairs\thow much better, pair by pair: median (min-max)")
	for _, name := range p.names {
		v := p.values[name]
		fmt.Fprintf(tab, "%s\t%.2f\t%.2f\t%d\t%s%s\n", name, median(v[0]), median(v[1]), len(v[0]), spreadOf(p.ratios[name], "%.3f"),
			verdict(median(p.ratios[name]) >= slower, target(p.ratios[name])))
	}
	_ = tab.Flush() // to the terminal
}

func target(ratios []float64) string {
	if tell(ratios) {
		return fmt.Sprintf(">= %.2f", slower)
	}
	return fmt.Sprintf(">= %.2f; too much scatter to tell", slower)
}
