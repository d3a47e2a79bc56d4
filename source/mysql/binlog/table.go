package binlog

import (
	"fmt"
)

// Types of columns, with the numbers of the protocol.
const (
	TypeTiny            = 1
	TypeShort           = 2
	TypeLong            = 3
	TypeFloat           = 4
	TypeDouble          = 5
	TypeTimestamp       = 7
	TypeLongLong        = 8
	TypeInt24           = 9
	TypeDate            = 10
	TypeTime            = 11
	TypeDatetime        = 12
	TypeYear            = 13
	TypeNewDate         = 14
	TypeVarchar         = 15
	TypeBit             = 16
	TypeTimestamp2      = 17
	TypeDatetime2       = 18
	TypeTime2           = 19
	TypeBlobCompressed  = 140 // MariaDB
	TypeVarcharCompress = 141 // MariaDB
	TypeVector          = 242
	TypeJSON            = 245
	TypeNewDecimal      = 246
	TypeEnum            = 247
	TypeSet             = 248
	TypeTinyBlob        = 249
	TypeMediumBlob      = 250
	TypeLongBlob        = 251
	TypeBlob            = 252
	TypeVarString       = 253
	TypeString          = 254
	TypeGeometry        = 255
)

// A Column is a column of a TableMap.
type Column struct {
	Type byte
	Meta uint16
	// Prefix is the number of bytes that hold the length of a value. If it is 0, every value has the length Fixed.
	Prefix, Fixed int
}

// A TableMap describes a table. Events with rows refer to it by its ID.
type TableMap struct {
	ID            uint64
	Schema, Table []byte
	Columns       []Column
	// What follows depends on binlog_row_metadata. With MINIMAL there are no names and labels.
	Names    [][]byte
	Unsigned []byte // a bit each number column, highest first
	// Columns with text or bytes have collations: a default, followed by pairs (n-th such column, collation), or one for each column.
	CollationDefault []uint64
	Collations       []uint64
	Enums, Sets      [][]string
	HasSigns         bool
}

// ParseTableMap reads a table map. Its texts point into b.
func ParseTableMap(b []byte) (*TableMap, error) {
	r := reading{b: b}
	t := &TableMap{ID: r.uint(6)}
	r.take(2)
	t.Schema = r.take(int(r.uint8()))
	r.take(1)
	t.Table = r.take(int(r.uint8()))
	r.take(1)
	n := r.size()
	types := r.take(n)
	meta := reading{b: r.take(r.size())}
	for _, typ := range types {
		c, ok := parseWireColumn(typ, &meta)
		if !ok {
			return nil, fmt.Errorf("read table map of %s.%s: column type %d is not known: %w", t.Schema, t.Table, typ, ErrProtocol)
		}
		t.Columns = append(t.Columns, c)
	}
	r.take((n + 7) / 8) // which columns may be NULL
	if r.bad || meta.bad || len(t.Columns) != n {
		return nil, Truncated("table map")
	}
	return t, t.parseOptional(&r)
}

// ParseTableName reads only the id and the names, which is cheaper.
func ParseTableName(b []byte) (id uint64, schema, table []byte, err error) {
	r := reading{b: b}
	id = r.uint(6)
	r.take(2)
	schema = r.take(int(r.uint8()))
	r.take(1)
	table = r.take(int(r.uint8()))
	if r.bad {
		return 0, nil, nil, Truncated("table map")
	}
	return id, schema, table, nil
}

// parseWireColumn reads the metadata of a column.
func parseWireColumn(typ byte, meta *reading) (c Column, ok bool) {
	c.Type = typ
	switch typ {
	case TypeTiny, TypeYear:
		c.Fixed = 1
	case TypeShort:
		c.Fixed = 2
	case TypeInt24, TypeDate, TypeNewDate, TypeTime:
		c.Fixed = 3
	case TypeLong, TypeTimestamp:
		c.Fixed = 4
	case TypeLongLong, TypeDatetime:
		c.Fixed = 8
	case TypeFloat, TypeDouble:
		c.Fixed = int(meta.uint8())
	case TypeTimestamp2, TypeDatetime2, TypeTime2:
		c.Meta = uint16(meta.uint8())
		whole := map[byte]int{TypeTimestamp2: 4, TypeDatetime2: 5, TypeTime2: 3}[typ]
		c.Fixed = whole + (int(c.Meta)+1)/2
	case TypeNewDecimal:
		digits, scale := meta.uint8(), meta.uint8()
		c.Meta = uint16(digits)<<8 | uint16(scale)
		c.Fixed = decimalSize(int(digits), int(scale))
	case TypeBit:
		bits, bytes := meta.uint8(), meta.uint8()
		c.Fixed = int(bytes) + (int(bits)+7)/8
	case TypeVarchar, TypeVarString, TypeVarcharCompress:
		c.Meta = meta.uint16()
		c.Prefix = lengthOfLength(int(c.Meta))
	case TypeBlob, TypeTinyBlob, TypeMediumBlob, TypeLongBlob, TypeBlobCompressed, TypeJSON, TypeGeometry, TypeVector:
		c.Prefix = int(meta.uint8())
		return c, c.Prefix >= 1 && c.Prefix <= 4
	case TypeString, TypeEnum, TypeSet:
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

// parseStringColumn reads the metadata of CHAR, BINARY, ENUM and SET, which share a type. The two high bits of a long length are stored,
// inverted, in the byte of the real type.
func parseStringColumn(c Column, meta *reading) (Column, bool) {
	typ, n := meta.uint8(), meta.uint8()
	length := int(n)
	switch {
	case typ == TypeEnum || typ == TypeSet:
		c.Type, c.Fixed = typ, length
		return c, length >= 1 && length <= 8
	case typ&0x30 != 0x30:
		length |= int(typ&0x30^0x30) << 4
	}
	c.Type, c.Meta = TypeString, uint16(length)
	c.Prefix = lengthOfLength(length)
	return c, true
}

// Fields that binlog_row_metadata adds.
const (
	metaSigns          = 1
	metaCharsetDefault = 2
	metaCharsets       = 3
	metaNames          = 4
	metaSets           = 5
	metaEnums          = 6
)

func (t *TableMap) parseOptional(r *reading) error {
	for len(r.b) > 0 {
		typ := r.uint8()
		f := reading{b: r.take(r.size())}
		switch typ {
		case metaSigns:
			t.Unsigned, t.HasSigns = f.rest(), true
		case metaCharsetDefault:
			t.CollationDefault = numbers(&f)
		case metaCharsets:
			t.Collations = numbers(&f)
		case metaNames:
			for len(f.b) > 0 {
				t.Names = append(t.Names, f.take(f.size()))
			}
		case metaSets:
			t.Sets = labelLists(&f)
		case metaEnums:
			t.Enums = labelLists(&f)
		}
		if f.bad || r.bad {
			return Truncated("table map's metadata")
		}
	}
	if t.Names != nil && len(t.Names) != len(t.Columns) {
		return fmt.Errorf("read table map of %s.%s: %d names of %d columns: %w", t.Schema, t.Table, len(t.Names), len(t.Columns), ErrProtocol)
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

// Numeric reports whether the column has a bit in Unsigned.
func (c *Column) Numeric() bool {
	switch c.Type {
	case TypeTiny, TypeShort, TypeInt24, TypeLong, TypeLongLong, TypeNewDecimal, TypeFloat, TypeDouble, TypeYear:
		return true
	}
	return false
}

// HasCollation reports whether the column counts among those with a collation. MariaDB counts GEOMETRY, and MySQL VECTOR.
func (c *Column) HasCollation(mariadb bool) bool {
	switch c.Type {
	case TypeString, TypeVarString, TypeVarchar, TypeBlob, TypeTinyBlob, TypeMediumBlob, TypeLongBlob, TypeBlobCompressed, TypeVarcharCompress:
		return true
	case TypeGeometry:
		return mariadb
	case TypeVector:
		return !mariadb
	}
	return false
}

// Collation returns the collation of the n-th column that has one.
func (t *TableMap) Collation(n int) (id uint64, ok bool) {
	if n < len(t.Collations) {
		return t.Collations[n], true
	}
	if len(t.CollationDefault) == 0 {
		return 0, false
	}
	for i := 1; i+1 < len(t.CollationDefault); i += 2 {
		if t.CollationDefault[i] == uint64(n) {
			return t.CollationDefault[i+1], true
		}
	}
	return t.CollationDefault[0], true
}
