package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A gtidSet is the GTIDs of all transactions up to a place in the log: MySQL's sets of intervals, or MariaDB's latest of each
// domain. A transaction of the same origin as the one before changes one number at the end of its text, so that the text
// of each place costs a copy.
type gtidSet struct {
	mariadb bool
	// origins by uuid or uuid:tag (MySQL), or by domain (MariaDB).
	origins map[string]*origin
	// last is the origin of the latest transaction; head is the text of the whole set up to its last number, "" where it has to
	// be made.
	last *origin
	head string
}

// An origin is what the set holds of one uuid, tag or domain.
type origin struct {
	key       string
	intervals []interval // MySQL: ascending, apart
	server    uint32     // MariaDB
	seq       uint64
}

// An interval includes both its ends.
type interval struct{ first, last uint64 }

func newGTIDs(mariadb bool) *gtidSet {
	return &gtidSet{mariadb: mariadb, origins: map[string]*origin{}}
}

// parseGTIDs reads what the server prints: uuid:1-5:7:tag:1,… or domain-server-number,….
func parseGTIDs(text string, mariadb bool) (*gtidSet, error) {
	set := newGTIDs(mariadb)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		var err error
		if mariadb {
			err = set.parseDomain(part)
		} else {
			err = set.parseIntervals(part)
		}
		if err != nil {
			return nil, fmt.Errorf("read gtid set: %w", err)
		}
	}
	return set, nil
}

func (g *gtidSet) parseDomain(part string) error {
	fields := strings.Split(part, "-")
	if len(fields) != 3 {
		return fmt.Errorf("%q is not of the form domain-server-number", part)
	}
	domain, err1 := strconv.ParseUint(fields[0], 10, 32)
	server, err2 := strconv.ParseUint(fields[1], 10, 32)
	seq, err3 := strconv.ParseUint(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return fmt.Errorf("%q is not of the form domain-server-number", part)
	}
	g.setDomain(uint32(domain), uint32(server), seq)
	return nil
}

func (g *gtidSet) parseIntervals(part string) error {
	fields := strings.Split(part, ":")
	uuid := strings.ToLower(fields[0])
	if len(uuid) != 36 || len(fields) < 2 {
		return fmt.Errorf("%q is not of the form uuid:first-last", part)
	}
	key := uuid
	for _, f := range fields[1:] {
		if f == "" {
			return fmt.Errorf("%q is not of the form uuid:first-last", part)
		}
		if f[0] < '0' || f[0] > '9' {
			key = uuid + ":" + f
			continue
		}
		lo, hi, ok := strings.Cut(f, "-")
		if !ok {
			hi = lo
		}
		first, err1 := strconv.ParseUint(lo, 10, 64)
		last, err2 := strconv.ParseUint(hi, 10, 64)
		if err1 != nil || err2 != nil || first == 0 || last < first {
			return fmt.Errorf("%q is not of the form uuid:first-last", part)
		}
		g.addInterval(key, interval{first, last})
	}
	return nil
}

// setDomain takes a MariaDB transaction in.
func (g *gtidSet) setDomain(domain, server uint32, seq uint64) {
	if o := g.last; o != nil && o.server == server && g.head != "" && o.key == strconv.FormatUint(uint64(domain), 10) {
		o.seq = seq
		return
	}
	key := strconv.FormatUint(uint64(domain), 10)
	o := g.origin(key)
	o.server, o.seq = server, seq
	g.last, g.head = o, ""
}

func (g *gtidSet) origin(key string) *origin {
	o := g.origins[key]
	if o == nil {
		o = &origin{key: key}
		g.origins[key] = o
	}
	return o
}

// add takes a MySQL transaction in.
func (g *gtidSet) add(key []byte, number uint64) {
	o := g.last
	if o == nil || o.key != string(key) {
		o = g.origin(string(key))
		g.last, g.head = o, ""
	}
	if n := len(o.intervals); n > 0 && o.intervals[n-1].last+1 == number {
		o.intervals[n-1].last = number
		return
	}
	g.addInterval(o.key, interval{number, number})
	g.last = o
}

func (g *gtidSet) addInterval(key string, v interval) {
	o := g.origin(key)
	g.head = ""
	o.intervals = append(o.intervals, v)
	slices.SortFunc(o.intervals, func(a, b interval) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	merged := o.intervals[:1]
	for _, v := range o.intervals[1:] {
		if end := &merged[len(merged)-1]; v.first <= end.last+1 {
			end.last = max(end.last, v.last)
		} else {
			merged = append(merged, v)
		}
	}
	o.intervals = merged
}

// empty tells whether there are no GTIDs at all.
func (g *gtidSet) empty() bool { return g == nil || len(g.origins) == 0 }

// append appends the text of the set, "-" for none. The latest origin comes last.
func (g *gtidSet) append(b []byte) []byte {
	if g.empty() {
		return append(b, '-')
	}
	if g.head == "" {
		g.makeHead()
	}
	b = append(b, g.head...)
	if g.mariadb {
		return strconv.AppendUint(b, g.last.seq, 10)
	}
	return strconv.AppendUint(b, g.last.intervals[len(g.last.intervals)-1].last, 10)
}

func (g *gtidSet) String() string { return string(g.append(nil)) }

// makeHead makes the text of the set but for the last number.
func (g *gtidSet) makeHead() {
	keys := make([]string, 0, len(g.origins))
	for key := range g.origins {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if g.last == nil {
		g.last = g.origins[keys[len(keys)-1]]
	}
	var b []byte
	for _, key := range keys {
		if o := g.origins[key]; o != g.last {
			b = append(o.append(b, g.mariadb), ',')
		}
	}
	b = g.last.append(b, g.mariadb)
	end := len(b)
	for end > 0 && b[end-1] >= '0' && b[end-1] <= '9' {
		end--
	}
	g.head = string(b[:end])
}

func (o *origin) append(b []byte, mariadb bool) []byte {
	b = append(b, o.key...)
	if mariadb {
		b = strconv.AppendUint(append(b, '-'), uint64(o.server), 10)
		return strconv.AppendUint(append(b, '-'), o.seq, 10)
	}
	for _, v := range o.intervals {
		b = strconv.AppendUint(append(b, ':'), v.first, 10)
		b = strconv.AppendUint(append(b, '-'), v.last, 10)
	}
	return b
}

// splitList splits a list at its commas; empty text has no parts.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
