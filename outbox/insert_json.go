package outbox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// zeroEscape is what Postgres' jsonb alone does not take.
const zeroEscape = `has \u0000`

// Limits of JSON, below those of the databases: MySQL counts 100 levels, Postgres has its max_stack_depth; and of numbers
// in Postgres' jsonb, which are numerics.
const (
	mysqlJSONDepth    = 100
	postgresJSONDepth = 3000
	jsonbDigits       = 16000
)

// againstJSON says what a JSON column holds against a text; "" if nothing. The size is that of the text that the column will have: jsonb
// has white space of its own, and writes numbers without exponents.
func (in *Insert) againstJSON(c *Column, text string) (why string, size int) {
	if !json.Valid([]byte(text)) {
		return "is no JSON, which column " + c.Name + " demands: correct it, or make it a column of text or bytes", 0
	}
	grown := 0
	most := postgresJSONDepth
	if in.dialect == MySQL {
		most = mysqlJSONDepth
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			next, why := skipString(text, i)
			if why != "" && c.Kind == KindJSONB && (in.dialect == Postgres || why != zeroEscape) {
				return why + ", which column " + c.Name + " does not take: make it a column of json, text or bytes", 0
			}
			i = next
		case b == '{' || b == '[':
			if depth++; depth > most {
				return fmt.Sprintf("is nested deeper than %d levels, which column %s does not take", most, c.Name), 0
			}
		case b == '}' || b == ']':
			depth--
		case b == '-' || b >= '0' && b <= '9':
			end := i
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			digits, ok := digitsOf(text[i:end])
			if !ok && c.Kind == KindJSONB && in.dialect == Postgres {
				return "has a number that is too long or too large for column " + c.Name + ": write it as a string", 0
			}
			grown += digits - (end - i)
			i = end - 1
		case b == ':' || b == ',':
			grown++
		case b == ' ' || b == '\t' || b == '\n' || b == '\r':
			grown--
		}
	}
	if c.Kind == KindJSON {
		grown = 0 // it keeps the text
	}
	return "", len(text) + grown
}

// skipString returns where the string that begins at i ends, and what jsonb holds against it. The text is valid JSON.
func skipString(text string, i int) (end int, why string) {
	high := false // the escape before was the first half of a pair
	for i++; text[i] != '"'; i++ {
		if text[i] != '\\' || text[i+1] != 'u' {
			if high {
				why = "has half of a surrogate pair"
			}
			high = false
			if text[i] == '\\' {
				i++
			}
			continue
		}
		code, _ := strconv.ParseUint(text[i+2:i+6], 16, 32)
		second := code >= 0xdc00 && code <= 0xdfff
		if second != high {
			why = "has half of a surrogate pair"
		}
		if code == 0 {
			why = zeroEscape
		}
		high = code >= 0xd800 && code <= 0xdbff
		i += 5
	}
	if high {
		why = "has half of a surrogate pair"
	}
	return i, why
}

// digitsOf is how long a JSON number is at most without its exponent; not ok where it may be beyond what a numeric holds.
func digitsOf(text string) (n int, ok bool) {
	if len(text) > jsonbDigits {
		return len(text), false
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return len(text), true
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || e > jsonbDigits || e < -jsonbDigits {
		return len(text), false
	}
	return len(text) + max(e, -e), true
}
