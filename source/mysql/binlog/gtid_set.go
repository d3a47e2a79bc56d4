package binlog

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// A GTIDSet holds the GTIDs of all transactions up to a position in the log: intervals for each origin of MySQL, or the latest
// number of each domain of MariaDB.
//
// Its text is wanted at the end of every transaction. If a transaction has the same origin as the one before, only the last number
// of the text changes; so the set keeps the rest of its text (head), and Append costs one copy.
type GTIDSet struct {
	MariaDB bool
	// origins by uuid or uuid:tag (MySQL), or by domain (MariaDB).
	origins map[string]*origin
	// last is the origin of the latest transaction. head is the text of the whole set without the last number, "" if it is out of
	// date.
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

// An interval includes both ends.
type interval struct{ first, last uint64 }

// NewGTIDSet returns an empty set.
func NewGTIDSet(mariadb bool) *GTIDSet {
	return &GTIDSet{MariaDB: mariadb, origins: map[string]*origin{}}
}

// ParseGTIDSet reads a set as the server prints it: uuid:1-5:7:tag:1,… or domain-server-number,….
func ParseGTIDSet(text string, mariadb bool) (*GTIDSet, error) {
	set := NewGTIDSet(mariadb)
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

func (g *GTIDSet) parseDomain(part string) error {
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
	g.SetDomain(uint32(domain), uint32(server), seq)
	return nil
}

func (g *GTIDSet) parseIntervals(part string) error {
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

// SetDomain adds a transaction of MariaDB.
func (g *GTIDSet) SetDomain(domain, server uint32, seq uint64) {
	if o := g.last; o != nil && o.server == server && g.head != "" && o.key == strconv.FormatUint(uint64(domain), 10) {
		o.seq = seq
		return
	}
	key := strconv.FormatUint(uint64(domain), 10)
	o := g.origin(key)
	o.server, o.seq = server, seq
	g.last, g.head = o, ""
}

func (g *GTIDSet) origin(key string) *origin {
	o := g.origins[key]
	if o == nil {
		o = &origin{key: key}
		g.origins[key] = o
	}
	return o
}

// Add adds a transaction of MySQL.
func (g *GTIDSet) Add(key []byte, number uint64) {
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

func (g *GTIDSet) addInterval(key string, v interval) {
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

// Domains returns MariaDB's domains and the latest number of each.
func (g *GTIDSet) Domains() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for domain, o := range g.origins {
			if !yield(domain, o.seq) {
				return
			}
		}
	}
}

// Empty reports whether the set is nil or has no GTIDs.
func (g *GTIDSet) Empty() bool { return g == nil || len(g.origins) == 0 }

// Append appends the text of the set, "-" if it is empty. The origin of the latest transaction comes last.
func (g *GTIDSet) Append(b []byte) []byte {
	if g.Empty() {
		return append(b, '-')
	}
	if g.head == "" {
		g.makeHead()
	}
	b = append(b, g.head...)
	if g.MariaDB {
		return strconv.AppendUint(b, g.last.seq, 10)
	}
	return strconv.AppendUint(b, g.last.intervals[len(g.last.intervals)-1].last, 10)
}

func (g *GTIDSet) String() string { return string(g.Append(nil)) }

// makeHead makes head.
func (g *GTIDSet) makeHead() {
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
			b = append(o.append(b, g.MariaDB), ',')
		}
	}
	b = g.last.append(b, g.MariaDB)
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
