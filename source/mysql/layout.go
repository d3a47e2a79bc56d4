package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
)

// A catalog is what the server said about the configured tables at one time. Immutable.
type catalog struct {
	tables []*tableInfo
	byName map[string]*tableInfo // schema.name
	// charsets by the number of a collation.
	charsets map[uint64]string
	mariadb  bool
	// end is a place in the log behind all changes that the catalog shows.
	end place
}

// readCatalog looks all configured tables up. What an operator has to mend is an error that matches source.ErrStop.
func (c *Config) readCatalog(ctx context.Context, s *session) (*catalog, error) {
	cat := &catalog{byName: map[string]*tableInfo{}, charsets: map[uint64]string{}, mariadb: s.server.mariadb}
	from := "collations"
	if s.server.mariadb && s.server.atLeast(10, 10, 0) {
		from = "collation_character_set_applicability"
	}
	rows, err := s.texts(ctx, "SELECT id, character_set_name FROM information_schema."+from+" WHERE id IS NOT NULL")
	if err != nil {
		return nil, fmt.Errorf("look up collations: %w", err)
	}
	for _, r := range rows {
		if id, err := strconv.ParseUint(r[0], 10, 64); err == nil {
			cat.charsets[id] = r[1]
		}
	}
	for i := range c.Tables {
		info, err := describeTable(ctx, s, &c.Tables[i])
		if err != nil {
			return nil, err
		}
		if !strings.EqualFold(info.engine, "InnoDB") && !strings.EqualFold(info.engine, "RocksDB") {
			return nil, fmt.Errorf("check table %s: its engine is %s, whose rows are no part of transactions: ALTER TABLE %s ENGINE = InnoDB: %w",
				info, info.engine, tableName(&info.Table), source.ErrStop)
		}
		cat.tables = append(cat.tables, info)
		cat.byName[info.String()] = info
	}
	return cat, nil
}

// A layout is how rows of one table map are read: where values end, and what they mean. Which columns it has is found out once rows
// are wanted: those of a change, such as the relay's own, may be of columns that nobody can read any more.
type layout struct {
	raw  []byte     // the table map, to recognise it again
	info *tableInfo // nil: a table that is none of ours
	plan *plan      // nil: not asked for yet, or err
	wire []wireColumn
	err  error
	own  bool // one of tailbox_*
}

// newLayout makes one for a configured table. Where the log has no names, the columns must be those of today, by number and
// type.
func (cat *catalog) newLayout(info *tableInfo, t *tableMap) (*layout, error) {
	if t.names == nil {
		if err := t.sameAs(info); err != nil {
			return nil, err
		}
	}
	l := &layout{wire: t.columns}
	cols := make([]column, len(t.columns))
	var numbers, characters, enums, sets int
	for i := range t.columns {
		w := &t.columns[i]
		var declared tableColumn
		if t.names == nil {
			declared = info.columns[i]
		} else {
			declared, _ = info.column(string(t.names[i]))
		}
		c := &cols[i]
		*c = columnOf(w, &declared)
		if t.names != nil {
			c.name = string(t.names[i])
		}
		if w.number() {
			if t.signs {
				c.unsigned = numbers/8 < len(t.unsigned) && t.unsigned[numbers/8]&(0x80>>(numbers%8)) != 0
			}
			numbers++
		}
		if w.character(cat.mariadb) {
			if id, ok := t.collation(characters); ok {
				cat.setCharset(c, w, id, &declared)
			}
			characters++
		}
		switch {
		case w.typ == typeEnum && enums < len(t.enums):
			c.labels = t.enums[enums]
			enums++
		case w.typ == typeSet && sets < len(t.sets):
			c.labels = t.sets[sets]
			sets++
		}
	}
	if n := len(t.charsets); n > 0 && n != characters {
		return nil, fmt.Errorf("read table map of %s: collations of %d columns, but %d have one: %w", info, n, characters, errProtocol)
	}
	var err error
	l.plan, err = newPlan(&info.Table, cols)
	return l, err
}

// columnOf is what a column's type in the log and its declaration tell.
func columnOf(w *wireColumn, declared *tableColumn) column {
	c := column{name: declared.name, nullDefault: declared.nullDefault, unsigned: declared.unsigned, labels: declared.labels}
	switch w.typ {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong:
		c.kind = kindInt
	case typeFloat:
		c.kind = kindFloat
	case typeDouble:
		c.kind = kindDouble
	case typeNewDecimal:
		c.kind, c.digits, c.scale = kindDecimal, int(w.meta>>8), int(w.meta&0xff)
	case typeYear:
		c.kind = kindYear
	case typeDate, typeNewDate:
		c.kind = kindDate
	case typeTime, typeTime2:
		c.kind, c.digits = kindTime, fractionDigits(w, typeTime)
	case typeDatetime, typeDatetime2:
		c.kind, c.digits = kindDatetime, fractionDigits(w, typeDatetime)
	case typeTimestamp, typeTimestamp2:
		c.kind, c.digits = kindTimestamp, fractionDigits(w, typeTimestamp)
	case typeBit:
		c.kind, c.size = kindBit, w.fixed
	case typeJSON:
		c.kind = kindJSON
	case typeEnum:
		c.kind = kindEnum
	case typeSet:
		c.kind = kindSet
	case typeBlobCompressed, typeVarcharCompress, typeGeometry, typeVector:
		c.kind, c.why = kindOther, "its type cannot be read from the log: convert the column to a text, binary or number type"
	default: // text and bytes, of which only the declaration knows more
		c.kind, c.why, c.size = declared.kind, declared.why, declared.size
		if declared.name == "" {
			c.kind, c.why = kindOther, "its character set is not known: SET GLOBAL binlog_row_metadata = 'FULL'"
		}
	}
	return c
}

// fractionDigits is -1 for the old form of a type.
func fractionDigits(w *wireColumn, old byte) int {
	if w.typ == old {
		return -1
	}
	return int(w.meta)
}

// setCharset reads a column of text or bytes by the collation in the log. A declaration that says more of bytes, such as
// MariaDB's UUID, stays.
func (cat *catalog) setCharset(c *column, w *wireColumn, id uint64, declared *tableColumn) {
	if c.kind == kindOther && slices.Contains([]byte{typeBlobCompressed, typeVarcharCompress, typeGeometry, typeVector}, w.typ) || declared.dataType == "uuid" || declared.dataType == "inet6" || declared.dataType == "inet4" {
		return
	}
	charset, ok := cat.charsets[id]
	if !ok {
		charset = "of collation " + strconv.FormatUint(id, 10)
	}
	c.kind, c.why = charsetKind(charset)
	if c.kind == kindBytes && w.typ == typeString {
		c.size = int(w.meta)
		if c.size == 16 {
			c.kind = kindUUID
		}
	}
}

// sameAs holds a table map without names against the columns of today.
func (t *tableMap) sameAs(info *tableInfo) error {
	same := len(t.columns) == len(info.columns)
	for i := 0; same && i < len(t.columns); i++ {
		same = t.columns[i].fits(info.columns[i].dataType)
	}
	if same {
		return nil
	}
	return beforeAlter(info)
}

// beforeAlter is the error for rows whose columns are not those of today, and have no names.
func beforeAlter(info *tableInfo) error {
	return fmt.Errorf("read columns of %s: the log holds rows from before the table was altered, and binlog_row_metadata is not FULL, so that their "+
		"columns have no names: SET GLOBAL binlog_row_metadata = 'FULL' for what is to come; what is in the log already can be passed "+
		"by tailbox accept-gap --unreadable --why …: %w", info, source.ErrStop)
}

// fits tells whether a column in the log can be of a declared type.
func (c *wireColumn) fits(dataType string) bool {
	types := map[string][]byte{
		"tinyint": {typeTiny}, "smallint": {typeShort}, "mediumint": {typeInt24}, "int": {typeLong}, "integer": {typeLong},
		"bigint": {typeLongLong}, "float": {typeFloat}, "double": {typeDouble}, "decimal": {typeNewDecimal}, "bit": {typeBit},
		"year": {typeYear}, "date": {typeDate, typeNewDate}, "time": {typeTime, typeTime2}, "datetime": {typeDatetime, typeDatetime2},
		"timestamp": {typeTimestamp, typeTimestamp2}, "json": {typeJSON}, "enum": {typeEnum}, "set": {typeSet},
		"char": {typeString}, "binary": {typeString}, "varchar": {typeVarchar, typeVarString, typeVarcharCompress},
		"varbinary": {typeVarchar, typeVarString, typeVarcharCompress},
	}
	known, ok := types[dataType]
	if !ok { // BLOB, TEXT and what is stored like them
		return c.prefix > 0 && c.typ != typeVarchar && c.typ != typeJSON || c.typ == typeString
	}
	for _, t := range known {
		if c.typ == t {
			return true
		}
	}
	return false
}
