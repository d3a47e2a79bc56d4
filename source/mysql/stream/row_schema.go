package stream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// A knownTables is what the server said about the configured tables at one time. Immutable.
type knownTables struct {
	tables []*catalog.Table
	byName map[string]*catalog.Table // schema.name
	// charsets by the number of a collation.
	charsets map[uint64]string
	mariadb  bool
	// end is a place in the log behind all changes that the catalog shows.
	end binlog.Position
}

// readCatalog looks all configured tables up. What an operator has to mend is an error that matches source.ErrStop.
func readCatalog(ctx context.Context, c *server.Config, s *server.Conn) (*knownTables, error) {
	cat := &knownTables{byName: map[string]*catalog.Table{}, charsets: map[uint64]string{}, mariadb: s.Server.MariaDB}
	from := "collations"
	if s.Server.MariaDB && s.Server.AtLeast(10, 10, 0) {
		from = "collation_character_set_applicability"
	}
	rows, err := s.Texts(ctx, "SELECT id, character_set_name FROM information_schema."+from+" WHERE id IS NOT NULL")
	if err != nil {
		return nil, fmt.Errorf("look up collations: %w", err)
	}
	for _, r := range rows {
		if id, err := strconv.ParseUint(r[0], 10, 64); err == nil {
			cat.charsets[id] = r[1]
		}
	}
	for i := range c.Tables {
		info, err := catalog.Describe(ctx, s, &c.Tables[i])
		if err != nil {
			return nil, err
		}
		if !strings.EqualFold(info.Engine, "InnoDB") && !strings.EqualFold(info.Engine, "RocksDB") {
			return nil, fmt.Errorf("check table %s: its engine is %s, whose rows are no part of transactions: ALTER TABLE %s ENGINE = InnoDB: %w",
				info, info.Engine, quote.Table(&info.Table), source.ErrStop)
		}
		cat.tables = append(cat.tables, info)
		cat.byName[info.String()] = info
	}
	return cat, nil
}

// A row schema is how rows of one table map are read: where values end, and what they mean. Which columns it has is found out once rows
// are wanted: those of a change, such as the relay's own, may be of columns that nobody can read any more.
type rowSchema struct {
	raw  []byte         // the table map, to recognise it again
	info *catalog.Table // nil: a table that is none of ours
	plan *catalog.Plan  // nil: not asked for yet, or err
	wire []binlog.Column
	err  error
	own  bool // one of tailbox_*
}

// newRowSchema makes one for a configured table. If the log has no names, the columns must be those of today, by number and
// type.
func (cat *knownTables) newRowSchema(info *catalog.Table, t *binlog.TableMap) (*rowSchema, error) {
	if t.Names == nil {
		if err := sameColumns(t, info); err != nil {
			return nil, err
		}
	}
	l := &rowSchema{wire: t.Columns}
	cols := make([]catalog.Column, len(t.Columns))
	var numbers, characters, enums, sets int
	for i := range t.Columns {
		w := &t.Columns[i]
		var declared catalog.Declared
		if t.Names == nil {
			declared = info.Cols[i]
		} else {
			declared, _ = info.Column(string(t.Names[i]))
		}
		c := &cols[i]
		*c = columnOf(w, &declared)
		if t.Names != nil {
			c.Name = string(t.Names[i])
		}
		if w.Numeric() {
			if t.HasSigns {
				c.Unsigned = numbers/8 < len(t.Unsigned) && t.Unsigned[numbers/8]&(0x80>>(numbers%8)) != 0
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
			c.Labels = t.Enums[enums]
			enums++
		case w.Type == binlog.TypeSet && sets < len(t.Sets):
			c.Labels = t.Sets[sets]
			sets++
		}
	}
	if n := len(t.Collations); n > 0 && n != characters {
		return nil, fmt.Errorf("read table map of %s: collations of %d columns, but %d have one: %w", info, n, characters, binlog.ErrProtocol)
	}
	var err error
	l.plan, err = catalog.NewPlan(&info.Table, cols)
	return l, err
}

// columnOf is what a column's type in the log and its declaration tell.
func columnOf(w *binlog.Column, declared *catalog.Declared) catalog.Column {
	c := catalog.Column{Name: declared.Name, NullDefault: declared.NullDefault, Unsigned: declared.Unsigned, Labels: declared.Labels}
	switch w.Type {
	case binlog.TypeTiny, binlog.TypeShort, binlog.TypeInt24, binlog.TypeLong, binlog.TypeLongLong:
		c.Kind = catalog.KindInt
	case binlog.TypeFloat:
		c.Kind = catalog.KindFloat
	case binlog.TypeDouble:
		c.Kind = catalog.KindDouble
	case binlog.TypeNewDecimal:
		c.Kind, c.Digits, c.Scale = catalog.KindDecimal, int(w.Meta>>8), int(w.Meta&0xff)
	case binlog.TypeYear:
		c.Kind = catalog.KindYear
	case binlog.TypeDate, binlog.TypeNewDate:
		c.Kind = catalog.KindDate
	case binlog.TypeTime, binlog.TypeTime2:
		c.Kind, c.Digits = catalog.KindTime, fractionDigits(w, binlog.TypeTime)
	case binlog.TypeDatetime, binlog.TypeDatetime2:
		c.Kind, c.Digits = catalog.KindDatetime, fractionDigits(w, binlog.TypeDatetime)
	case binlog.TypeTimestamp, binlog.TypeTimestamp2:
		c.Kind, c.Digits = catalog.KindTimestamp, fractionDigits(w, binlog.TypeTimestamp)
	case binlog.TypeBit:
		c.Kind, c.Bytes = catalog.KindBit, w.Fixed
	case binlog.TypeJSON:
		c.Kind = catalog.KindJSON
	case binlog.TypeEnum:
		c.Kind = catalog.KindEnum
	case binlog.TypeSet:
		c.Kind = catalog.KindSet
	case binlog.TypeBlobCompressed, binlog.TypeVarcharCompress, binlog.TypeGeometry, binlog.TypeVector:
		c.Kind, c.Why = catalog.KindOther, "its type cannot be read from the log: convert the column to a text, binary or number type"
	default: // text and bytes, of which only the declaration knows more
		c.Kind, c.Why, c.Bytes = declared.Kind, declared.Why, declared.Bytes
		if declared.Name == "" {
			c.Kind, c.Why = catalog.KindOther, "its character set is not known: SET GLOBAL binlog_row_metadata = 'FULL'"
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
func (cat *knownTables) setCharset(c *catalog.Column, w *binlog.Column, id uint64, declared *catalog.Declared) {
	if c.Kind == catalog.KindOther && slices.Contains([]byte{binlog.TypeBlobCompressed, binlog.TypeVarcharCompress, binlog.TypeGeometry, binlog.TypeVector}, w.Type) || declared.DataType == "uuid" || declared.DataType == "inet6" || declared.DataType == "inet4" {
		return
	}
	charset, ok := cat.charsets[id]
	if !ok {
		charset = "of collation " + strconv.FormatUint(id, 10)
	}
	c.Kind, c.Why = catalog.CharsetKind(charset)
	if c.Kind == catalog.KindBytes && w.Type == binlog.TypeString {
		c.Bytes = int(w.Meta)
		if c.Bytes == 16 {
			c.Kind = catalog.KindUUID
		}
	}
}

// sameColumns compares a table map without names against the columns of today.
func sameColumns(t *binlog.TableMap, info *catalog.Table) error {
	same := len(t.Columns) == len(info.Cols)
	for i := 0; same && i < len(t.Columns); i++ {
		same = fits(&t.Columns[i], info.Cols[i].DataType)
	}
	if same {
		return nil
	}
	return beforeAlter(info)
}

// beforeAlter is the error for rows whose columns are not those of today, and have no names.
func beforeAlter(info *catalog.Table) error {
	return fmt.Errorf("read columns of %s: the binlog holds rows from before an ALTER TABLE, without column names, because binlog_row_metadata is not FULL; "+
		"to undo the ALTER TABLE does not help: SET GLOBAL binlog_row_metadata = 'FULL' for rows written from now on, "+
		"then run tailbox accept-gap --unreadable --why … to give up the log up to the next start: %w", info, source.ErrStop)
}

// fits reports whether a column in the log can be of a declared type.
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
