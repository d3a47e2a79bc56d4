package mysql

import (
	"fmt"
)

// Types of columns in the log.
const (
	typeTiny            = 1
	typeShort           = 2
	typeLong            = 3
	typeFloat           = 4
	typeDouble          = 5
	typeTimestamp       = 7
	typeLongLong        = 8
	typeInt24           = 9
	typeDate            = 10
	typeTime            = 11
	typeDatetime        = 12
	typeYear            = 13
	typeNewDate         = 14
	typeVarchar         = 15
	typeBit             = 16
	typeTimestamp2      = 17
	typeDatetime2       = 18
	typeTime2           = 19
	typeBlobCompressed  = 140 // MariaDB
	typeVarcharCompress = 141 // MariaDB
	typeVector          = 242
	typeJSON            = 245
	typeNewDecimal      = 246
	typeEnum            = 247
	typeSet             = 248
	typeTinyBlob        = 249
	typeMediumBlob      = 250
	typeLongBlob        = 251
	typeBlob            = 252
	typeVarString       = 253
	typeString          = 254
	typeGeometry        = 255
)

// A wireColumn says how long a column's values are in the log.
type wireColumn struct {
	typ  byte
	meta uint16
	// prefix is the number of bytes that hold a value's length; 0 = all values have the length fixed.
	prefix, fixed int
}

// A tableMap announces the table that rows belong to, by a number that they repeat.
type tableMap struct {
	id            uint64
	schema, table []byte
	columns       []wireColumn
	// What follows is there as binlog_row_metadata says; nil or empty where it is not.
	names    [][]byte
	unsigned []byte // a bit each number column, highest first
	// charsets are the collations of columns with text or bytes: a default, and (n-th such column, collation) pairs; or one
	// each.
	charsetDefault []uint64
	charsets       []uint64
	enums, sets    [][]string
	signs          bool
}

// parseTableMap reads all of a table map. Texts point into b.
func parseTableMap(b []byte) (*tableMap, error) {
	r := reading{b: b}
	t := &tableMap{id: r.uint(6)}
	r.take(2)
	t.schema = r.take(int(r.uint8()))
	r.take(1)
	t.table = r.take(int(r.uint8()))
	r.take(1)
	n := r.size()
	types := r.take(n)
	meta := reading{b: r.take(r.size())}
	for _, typ := range types {
		c, ok := parseWireColumn(typ, &meta)
		if !ok {
			return nil, fmt.Errorf("read table map of %s.%s: column type %d is not known: %w", t.schema, t.table, typ, errProtocol)
		}
		t.columns = append(t.columns, c)
	}
	r.take((n + 7) / 8) // which columns may be NULL
	if r.bad || meta.bad || len(t.columns) != n {
		return nil, truncated("table map")
	}
	return t, t.parseOptional(&r)
}

// parseTableName reads only which table it is.
func parseTableName(b []byte) (id uint64, schema, table []byte, err error) {
	r := reading{b: b}
	id = r.uint(6)
	r.take(2)
	schema = r.take(int(r.uint8()))
	r.take(1)
	table = r.take(int(r.uint8()))
	if r.bad {
		return 0, nil, nil, truncated("table map")
	}
	return id, schema, table, nil
}

// parseWireColumn finds out how long values are.
func parseWireColumn(typ byte, meta *reading) (c wireColumn, ok bool) {
	c.typ = typ
	switch typ {
	case typeTiny, typeYear:
		c.fixed = 1
	case typeShort:
		c.fixed = 2
	case typeInt24, typeDate, typeNewDate, typeTime:
		c.fixed = 3
	case typeLong, typeTimestamp:
		c.fixed = 4
	case typeLongLong, typeDatetime:
		c.fixed = 8
	case typeFloat, typeDouble:
		c.fixed = int(meta.uint8())
	case typeTimestamp2, typeDatetime2, typeTime2:
		c.meta = uint16(meta.uint8())
		whole := map[byte]int{typeTimestamp2: 4, typeDatetime2: 5, typeTime2: 3}[typ]
		c.fixed = whole + (int(c.meta)+1)/2
	case typeNewDecimal:
		digits, scale := meta.uint8(), meta.uint8()
		c.meta = uint16(digits)<<8 | uint16(scale)
		c.fixed = decimalSize(int(digits), int(scale))
	case typeBit:
		bits, bytes := meta.uint8(), meta.uint8()
		c.fixed = int(bytes) + (int(bits)+7)/8
	case typeVarchar, typeVarString, typeVarcharCompress:
		c.meta = meta.uint16()
		c.prefix = lengthOfLength(int(c.meta))
	case typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlobCompressed, typeJSON, typeGeometry, typeVector:
		c.prefix = int(meta.uint8())
		return c, c.prefix >= 1 && c.prefix <= 4
	case typeString, typeEnum, typeSet:
		return parseStringColumn(c, meta)
	default:
		return c, false
	}
	return c, true
}

func lengthOfLength(limit int) int {
	if limit < 256 {
		return 1
	}
	return 2
}

// parseStringColumn reads CHAR, BINARY, ENUM and SET, which share a type: two bits of long lengths stand inverted in the real
// type's byte.
func parseStringColumn(c wireColumn, meta *reading) (wireColumn, bool) {
	typ, n := meta.uint8(), meta.uint8()
	length := int(n)
	switch {
	case typ == typeEnum || typ == typeSet:
		c.typ, c.fixed = typ, length
		return c, length >= 1 && length <= 8
	case typ&0x30 != 0x30:
		length |= int(typ&0x30^0x30) << 4
	}
	c.typ, c.meta = typeString, uint16(length)
	c.prefix = lengthOfLength(length)
	return c, true
}

// Fields of what binlog_row_metadata adds.
const (
	metaSigns          = 1
	metaCharsetDefault = 2
	metaCharsets       = 3
	metaNames          = 4
	metaSets           = 5
	metaEnums          = 6
)

func (t *tableMap) parseOptional(r *reading) error {
	for len(r.b) > 0 {
		typ := r.uint8()
		f := reading{b: r.take(r.size())}
		switch typ {
		case metaSigns:
			t.unsigned, t.signs = f.rest(), true
		case metaCharsetDefault:
			t.charsetDefault = numbers(&f)
		case metaCharsets:
			t.charsets = numbers(&f)
		case metaNames:
			for len(f.b) > 0 {
				t.names = append(t.names, f.take(f.size()))
			}
		case metaSets:
			t.sets = labelLists(&f)
		case metaEnums:
			t.enums = labelLists(&f)
		}
		if f.bad || r.bad {
			return truncated("table map's metadata")
		}
	}
	if t.names != nil && len(t.names) != len(t.columns) {
		return fmt.Errorf("read table map of %s.%s: %d names of %d columns: %w", t.schema, t.table, len(t.names), len(t.columns), errProtocol)
	}
	return nil
}

func numbers(r *reading) (ns []uint64) {
	for len(r.b) > 0 {
		ns = append(ns, r.lenenc())
	}
	return ns
}

func labelLists(r *reading) (lists [][]string) {
	for len(r.b) > 0 {
		var list []string
		for n := r.lenenc(); n > 0 && !r.bad; n-- {
			list = append(list, string(r.take(r.size())))
		}
		lists = append(lists, list)
	}
	return lists
}

// number tells whether the column is one of those that have a sign.
func (c *wireColumn) number() bool {
	switch c.typ {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong, typeNewDecimal, typeFloat, typeDouble, typeYear:
		return true
	}
	return false
}

// character tells whether the column is one of those that have a collation. MariaDB counts GEOMETRY among them, and MySQL VECTOR.
func (c *wireColumn) character(mariadb bool) bool {
	switch c.typ {
	case typeString, typeVarString, typeVarchar, typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlobCompressed, typeVarcharCompress:
		return true
	case typeGeometry:
		return mariadb
	case typeVector:
		return !mariadb
	}
	return false
}

// collation is that of the n-th column with text or bytes.
func (t *tableMap) collation(n int) (id uint64, ok bool) {
	if n < len(t.charsets) {
		return t.charsets[n], true
	}
	if len(t.charsetDefault) == 0 {
		return 0, false
	}
	for i := 1; i+1 < len(t.charsetDefault); i += 2 {
		if t.charsetDefault[i] == uint64(n) {
			return t.charsetDefault[i+1], true
		}
	}
	return t.charsetDefault[0], true
}
