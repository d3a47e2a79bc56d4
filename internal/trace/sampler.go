package trace

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// A sampler decides which spans are made. The zero value takes none.
type sampler struct {
	// parentBased: the decision of the application's span counts, if there is one.
	parentBased bool
	// below is the bound on 63 bits of the trace's ID: a trace below it is taken. All processes that sample by ratio decide alike.
	below uint64
}

const (
	allTraces    = 1 << 63
	ratioSampler = "traceidratio"
	parentPrefix = "parentbased_"
)

func samplers() []string {
	var names []string
	for _, prefix := range []string{parentPrefix, ""} {
		for _, name := range []string{"always_on", "always_off", ratioSampler} {
			names = append(names, prefix+name)
		}
	}
	return names
}

// readSampler reads OTEL_TRACES_SAMPLER and its argument. Its errors begin with the variable.
func readSampler(e *environment) sampler {
	const variable, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	name := e.one(variable, parentPrefix+"always_on", samplers()...)
	kind, based := strings.CutPrefix(name, parentPrefix)
	s := sampler{parentBased: based}
	switch kind {
	case "always_on":
		s.below = allTraces
	case ratioSampler:
		ratio := 1.0
		if text := e.get(argument); text != "" {
			var err error
			if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				e.wrong(argument, text, "must be a number from 0 to 1, such as 0.1")
			}
		}
		s.below = uint64(math.Round(ratio * allTraces))
	}
	return s
}

// takes reports whether a span of a trace is made. p is nil for a root.
func (s *sampler) takes(trace traceID, p *parent) bool {
	if p != nil && s.parentBased {
		return p.sampled
	}
	return binary.BigEndian.Uint64(trace[8:])>>1 < s.below
}
