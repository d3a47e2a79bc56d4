package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A catalog is what the server said about the configured tables at one time. Immutable.
type catalog struct {
	tables []*tableInfo
	byName map[string]*tableInfo // schema.name
	// charsets by the number of a collation.
	charsets map[uint64]string
	mariadb  bool
	// end is a place in the log behind all changes that the catalog shows.
	end binlog.Position
}

// readCatalog looks all configured tables up. What an operator has to mend is an error that matches source.ErrStop.
func readCatalog(ctx context.Context, c *config, s *session) (*catalog, error) {
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
	wire []binlog.Column
	err  error
	own  bool // one of tailbox_*
}

// newLayout makes one for a configured table. Where the log has no names, the columns must be those of today, by number and
// type.
func (cat *catalog) newLayout(info *tableInfo, t *binlog.TableMap) (*layout, error) {
	if t.Names == nil {
		if err := sameColumns(t, info); err != nil {
			return nil, err
		}
	}
	l := &layout{wire: t.Columns}
	cols := make([]column, len(t.Columns))
	var numbers, characters, enums, sets int
	for i := range t.Columns {
		w := &t.Columns[i]
		var declared tableColumn
		if t.Names == nil {
			declared = info.columns[i]
		} else {
			declared, _ = info.column(string(t.Names[i]))
		}
		c := &cols[i]
		*c = columnOf(w, &declared)
		if t.Names != nil {
			c.name = string(t.Names[i])
		}
		if w.Numeric() {
			if t.HasSigns {
				c.unsigned = numbers/8 < len(t.Unsigned) && t.Unsigned[numbers/8]&(0x80>>(numbers%8)) != 0
			}
			numbers++
		}
		if w.HasCollation(cat.mariadb) {
			if id, ok := t.Collation(characters); ok {
				cat.setCharset(c, w, id, &declared)
			}
			characters++
		}
		switch {
		case w.Type == binlog.TypeEnum && enums < len(t.Enums):
			c.labels = t.Enums[enums]
			enums++
		case w.Type == binlog.TypeSet && sets < len(t.Sets):
			c.labels = t.Sets[sets]
			sets++
		}
	}
	if n := len(t.Collations); n > 0 && n != characters {
		return nil, fmt.Errorf("read table map of %s: collations of %d columns, but %d have one: %w", info, n, characters, binlog.ErrProtocol)
	}
	var err error
	l.plan, err = newPlan(&info.Table, cols)
	return l, err
}

// columnOf is what a column's type in the log and its declaration tell.
func columnOf(w *binlog.Column, declared *tableColumn) column {
	c := column{name: declared.name, nullDefault: declared.nullDefault, unsigned: declared.unsigned, labels: declared.labels}
	switch w.Type {
	case binlog.TypeTiny, binlog.TypeShort, binlog.TypeInt24, binlog.TypeLong, binlog.TypeLongLong:
		c.kind = kindInt
	case binlog.TypeFloat:
		c.kind = kindFloat
	case binlog.TypeDouble:
		c.kind = kindDouble
	case binlog.TypeNewDecimal:
		c.kind, c.digits, c.scale = kindDecimal, int(w.Meta>>8), int(w.Meta&0xff)
	case binlog.TypeYear:
		c.kind = kindYear
	case binlog.TypeDate, binlog.TypeNewDate:
		c.kind = kindDate
	case binlog.TypeTime, binlog.TypeTime2:
		c.kind, c.digits = kindTime, fractionDigits(w, binlog.TypeTime)
	case binlog.TypeDatetime, binlog.TypeDatetime2:
		c.kind, c.digits = kindDatetime, fractionDigits(w, binlog.TypeDatetime)
	case binlog.TypeTimestamp, binlog.TypeTimestamp2:
		c.kind, c.digits = kindTimestamp, fractionDigits(w, binlog.TypeTimestamp)
	case binlog.TypeBit:
		c.kind, c.size = kindBit, w.Fixed
	case binlog.TypeJSON:
		c.kind = kindJSON
	case binlog.TypeEnum:
		c.kind = kindEnum
	case binlog.TypeSet:
		c.kind = kindSet
	case binlog.TypeBlobCompressed, binlog.TypeVarcharCompress, binlog.TypeGeometry, binlog.TypeVector:
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
func fractionDigits(w *binlog.Column, old byte) int {
	if w.Type == old {
		return -1
	}
	return int(w.Meta)
}

// setCharset reads a column of text or bytes by the collation in the log. A declaration that says more of bytes, such as
// MariaDB's UUID, stays.
func (cat *catalog) setCharset(c *column, w *binlog.Column, id uint64, declared *tableColumn) {
	if c.kind == kindOther && slices.Contains([]byte{binlog.TypeBlobCompressed, binlog.TypeVarcharCompress, binlog.TypeGeometry, binlog.TypeVector}, w.Type) || declared.dataType == "uuid" || declared.dataType == "inet6" || declared.dataType == "inet4" {
		return
	}
	charset, ok := cat.charsets[id]
	if !ok {
		charset = "of collation " + strconv.FormatUint(id, 10)
	}
	c.kind, c.why = charsetKind(charset)
	if c.kind == kindBytes && w.Type == binlog.TypeString {
		c.size = int(w.Meta)
		if c.size == 16 {
			c.kind = kindUUID
		}
	}
}

// sameColumns compares a table map without names against the columns of today.
func sameColumns(t *binlog.TableMap, info *tableInfo) error {
	same := len(t.Columns) == len(info.columns)
	for i := 0; same && i < len(t.Columns); i++ {
		same = fits(&t.Columns[i], info.columns[i].dataType)
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
func fits(c *binlog.Column, dataType string) bool {
	types := map[string][]byte{
		"tinyint": {binlog.TypeTiny}, "smallint": {binlog.TypeShort}, "mediumint": {binlog.TypeInt24}, "int": {binlog.TypeLong}, "integer": {binlog.TypeLong},
		"bigint": {binlog.TypeLongLong}, "float": {binlog.TypeFloat}, "double": {binlog.TypeDouble}, "decimal": {binlog.TypeNewDecimal}, "bit": {binlog.TypeBit},
		"year": {binlog.TypeYear}, "date": {binlog.TypeDate, binlog.TypeNewDate}, "time": {binlog.TypeTime, binlog.TypeTime2}, "datetime": {binlog.TypeDatetime, binlog.TypeDatetime2},
		"timestamp": {binlog.TypeTimestamp, binlog.TypeTimestamp2}, "json": {binlog.TypeJSON}, "enum": {binlog.TypeEnum}, "set": {binlog.TypeSet},
		"char": {binlog.TypeString}, "binary": {binlog.TypeString}, "varchar": {binlog.TypeVarchar, binlog.TypeVarString, binlog.TypeVarcharCompress},
		"varbinary": {binlog.TypeVarchar, binlog.TypeVarString, binlog.TypeVarcharCompress},
	}
	known, ok := types[dataType]
	if !ok { // BLOB, TEXT and what is stored like them
		return c.Prefix > 0 && c.Type != binlog.TypeVarchar && c.Type != binlog.TypeJSON || c.Type == binlog.TypeString
	}
	for _, t := range known {
		if c.Type == t {
			return true
		}
	}
	return false
}
