package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// An Outcome is what feedback is given about: a message that is delivered to all its sinks, or a delivery that waits for its
// next attempt or is dead.
type Outcome struct {
	// Kind is one of outbox.Outcomes.
	Kind    string
	Message *outbox.Message
	// RowID is the id of the user's row, which an edited message does not carry itself.
	RowID string
	// Sink, Attempt, Error and Class are those of the delivery; not where the message is delivered.
	Sink    string
	Attempt int
	Error   string
	Class   string
	// Receipt is what the sinks answered, as far as it is known, where the message is delivered.
	Receipt string
}

// A Feedback is a statement, or a document, with named parameters, which an outcome of a message fills in.
type Feedback struct {
	// Kind is the outcome that it is about.
	Kind string
	// Texts and Params alternate, beginning and ending with a text.
	Texts  []string
	Params []Param
}

// A Param is a named parameter.
type Param struct {
	// Name is that of a part of the message, of a header (header.NAME), or, with Column, of a column of its row.
	Name   string
	Column bool
}

// names of parameters that are no column; those of deliveries are not known of a message as a whole, and the other way round.
var (
	errNotDelivered = errors.New("is not known of a delivered message, which may have gone to several sinks: it goes with retrying and dead")
	errNotReceived  = errors.New("is known of a delivered message only")
)

const headerPrefix = "header."

// paramValue is what a parameter that is no column stands for; known is false for a name that is none of them. Null where
// the message has no such thing.
func paramValue(o *Outcome, name string) (v string, null, known bool) {
	m := o.Message
	text := func(s string) (string, bool, bool) { return s, s == "", true }
	bytes := func(b []byte) (string, bool, bool) { return string(b), b == nil, true }
	moment := func(t time.Time) (string, bool, bool) {
		if t.IsZero() {
			return "", true, true
		}
		return t.UTC().Format("2006-01-02 15:04:05.000000"), false, true
	}
	switch name {
	case "id":
		return text(o.RowID)
	case "type":
		return text(m.Type)
	case "group":
		return text(m.GroupText())
	case "key":
		return bytes(m.Key)
	case "topic":
		return text(m.Topic)
	case "payload":
		return bytes(m.Payload)
	case "tenant":
		return text(m.Tenant)
	case "content_type":
		return text(m.ContentType)
	case "idempotency_key":
		return text(m.IdempotencyKey)
	case "correlation_id":
		return text(m.CorrelationID)
	case "table":
		return text(m.Table)
	case "position":
		return m.Position.String(), false, true
	case "committed_at":
		return moment(m.CommitTime)
	case "outcome":
		return text(o.Kind)
	case "sink":
		return o.Sink, false, true
	case "attempt":
		return strconv.Itoa(o.Attempt), false, true
	case "error":
		return text(o.Error)
	case "class":
		return text(o.Class)
	case "receipt":
		return text(o.Receipt)
	}
	if header, ok := strings.CutPrefix(name, headerPrefix); ok {
		i := slices.IndexFunc(m.Headers, func(h outbox.Header) bool { return h.Name == header })
		if i < 0 {
			return "", true, true
		}
		return bytes(m.Headers[i].Value)
	}
	return "", false, false
}

// Value is what a parameter stands for in an outcome. Null is SQL NULL.
func (p Param) Value(o *Outcome) (v string, null bool) {
	if !p.Column {
		v, null, _ = paramValue(o, p.Name)
		return v, null
	}
	i := slices.IndexFunc(o.Message.Fields, func(f outbox.Field) bool { return f.Name == p.Name })
	if i < 0 || o.Message.Fields[i].Null {
		return "", true
	}
	return string(o.Message.Fields[i].Value), false
}

// param resolves a name that stands in a statement. quoted names are those of columns.
func param(kind, name string, quoted bool) (Param, error) {
	if quoted {
		return Param{name, true}, nil
	}
	switch name {
	case "sink", "attempt", "error", "class":
		if kind == outbox.OutcomeDelivered {
			return Param{}, fmt.Errorf(":%s %w", name, errNotDelivered)
		}
	case "receipt":
		if kind != outbox.OutcomeDelivered {
			return Param{}, fmt.Errorf(":%s %w", name, errNotReceived)
		}
	case headerPrefix:
		return Param{}, errors.New(":header. names no header: write :header.NAME")
	}
	_, _, known := paramValue(&Outcome{Message: &outbox.Message{}}, name)
	return Param{name, !known}, nil
}

// Columns are the columns of the row that are needed beside those that every message has.
func (f *Feedback) Columns() []string {
	var names []string
	for _, p := range f.Params {
		if p.Column && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// verbs are what a statement may begin with: nothing that ends a transaction, explicitly or (as DDL does in MySQL) by itself.
func verbs() []string {
	return []string{"insert", "update", "delete", "merge", "replace", "with", "select"}
}

// verb is the word that a statement begins with.
func verb(sql string) string {
	return strings.ToLower(sql[:len(sql)-len(strings.TrimLeft(sql, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"))])
}

// FeedbackRights names the privileges that a statement takes on the tables that it names, as far as its first word tells.
func FeedbackRights(sql string) string {
	if verb(strings.TrimSpace(sql)) == "delete" {
		return "SELECT and DELETE"
	}
	return "SELECT, INSERT, UPDATE or DELETE, as the statement asks for,"
}

// ParseFeedback reads a statement in SQL with parameters :name, :header.NAME and :"name of a column". What is in quotes or
// comments is left alone. The error says what is wrong, to stand behind the name of its key.
func ParseFeedback(kind, sql string) (*Feedback, error) { return parseFeedback(kind, sql, false) }

// ParseFeedbackMySQL is ParseFeedback for MySQL and MariaDB, where a backslash in quotes takes the next byte as it is, and # begins a comment.
func ParseFeedbackMySQL(kind, sql string) (*Feedback, error) { return parseFeedback(kind, sql, true) }

func parseFeedback(kind, sql string, mysql bool) (*Feedback, error) {
	sql = strings.TrimSpace(sql)
	sql = strings.TrimSpace(strings.TrimSuffix(sql, ";"))
	if !slices.Contains(verbs(), verb(sql)) {
		return nil, fmt.Errorf("must be one statement that begins with %s", strings.ToUpper(strings.Join(verbs(), ", ")))
	}
	f := &Feedback{Kind: kind}
	for begin, i := 0, 0; ; {
		if i >= len(sql) {
			f.Texts = append(f.Texts, sql[begin:])
			return f, nil
		}
		if end := skipQuoted(sql, i, mysql); end != i {
			if end < 0 {
				return nil, fmt.Errorf("has a quote or comment that does not end: %.40q", sql[i:])
			}
			i = end
			continue
		}
		switch {
		case nameByte(sql[i]):
			number := digit(sql[i])
			for i < len(sql) && (nameByte(sql[i]) || sql[i] == '$' && !number) { // within a name a $ is no more than a letter
				i++
			}
		case sql[i] == '$' && i+1 < len(sql) && digit(sql[i+1]):
			end := i + 1
			for end < len(sql) && digit(sql[end]) {
				end++
			}
			return nil, fmt.Errorf("has %s, which stands for nothing: name what is meant, as in :key or :order_no, and quote a column that is called so",
				sql[i:end])
		case sql[i] == ';':
			return nil, errors.New("must be one statement: it has a ; in the middle")
		case strings.HasPrefix(sql[i:], "::"):
			i += 2
		case sql[i] == ':':
			name, quoted, end := paramName(sql, i+1)
			if end == i+1 {
				i++
				continue
			}
			p, err := param(kind, name, quoted)
			if err != nil {
				return nil, err
			}
			f.Texts, f.Params = append(f.Texts, sql[begin:i]), append(f.Params, p)
			begin, i = end, end
		default:
			i++
		}
	}
}

// nameByte reports whether a byte can stand in a name, or begin a number.
func nameByte(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || digit(c) || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// paramName reads the name at i; end = i if there is none.
func paramName(sql string, i int) (name string, quoted bool, end int) {
	if i < len(sql) && sql[i] == '"' {
		end := skipTo(sql, i, '"', false)
		if end < 0 {
			return "", false, i
		}
		return strings.ReplaceAll(sql[i+1:end-1], `""`, `"`), true, end
	}
	letter := func(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	if i >= len(sql) || !letter(sql[i]) {
		return "", false, i
	}
	for end = i; end < len(sql) && (letter(sql[end]) || digit(sql[end])); end++ {
	}
	if sql[i:end] == strings.TrimSuffix(headerPrefix, ".") && end < len(sql) && sql[end] == '.' {
		for end++; end < len(sql) && (letter(sql[end]) || digit(sql[end]) || sql[end] == '-'); end++ {
		}
	}
	return sql[i:end], false, end
}

// skipQuoted is the place behind what is quoted or a comment at i; i if there is none, -1 if it does not end.
func skipQuoted(sql string, i int, mysql bool) int {
	switch c := sql[i]; {
	case c == '\'':
		escapes := i > 0 && sql[i-1]|0x20 == 'e' && (i == 1 || !strings.ContainsRune("_0123456789", rune(sql[i-2])) && (sql[i-2]|0x20 < 'a' || sql[i-2]|0x20 > 'z'))
		return skipTo(sql, i, c, escapes || mysql)
	case c == '"', c == '`':
		return skipTo(sql, i, c, mysql && c == '"')
	case strings.HasPrefix(sql[i:], "--"), c == '#' && mysql:
		if end := after(sql, i, "\n"); end > 0 {
			return end
		}
		return len(sql)
	case strings.HasPrefix(sql[i:], "/*"):
		return after(sql, i+2, "*/")
	case c == '$':
		end := i + 1
		for end < len(sql) && nameByte(sql[end]) {
			end++
		}
		if end < len(sql) && sql[end] == '$' && !digit(sql[i+1]) {
			tag := sql[i : end+1]
			return after(sql, i+len(tag), tag)
		}
	}
	return i
}

// skipTo is the place behind the quote that ends what begins at i; a doubled one stands for itself, as does one behind a backslash that
// escapes.
func skipTo(sql string, i int, quote byte, escapes bool) int {
	for j := i + 1; j < len(sql); j++ {
		if sql[j] == '\\' && escapes {
			j++
			continue
		}
		if sql[j] != quote {
			continue
		}
		if j+1 < len(sql) && sql[j+1] == quote {
			j++
			continue
		}
		return j + 1
	}
	return -1
}

func after(sql string, i int, end string) int {
	n := strings.Index(sql[i:], end)
	if n < 0 {
		return -1
	}
	return i + n + len(end)
}
