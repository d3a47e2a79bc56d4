package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads a duration such as 1m30s. Negative ones are refused.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("must be a duration such as 500ms, 30s or 1m30s, and not negative")
	}
	return d, nil
}

var errSize = errors.New("must be a size such as 64MiB, 10MB or a number of bytes")

// parseSize reads a number of bytes, with an optional unit: KiB MiB GiB are powers of 1024, kB MB GB powers of 1000.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKMGiB ")
	unit := int64(1)
	switch strings.TrimSpace(s[len(digits):]) {
	case "", "B":
	case "kB", "KB":
		unit = 1000
	case "KiB":
		unit = 1 << 10
	case "MB":
		unit = 1000 * 1000
	case "MiB":
		unit = 1 << 20
	case "GB":
		unit = 1000 * 1000 * 1000
	case "GiB":
		unit = 1 << 30
	default:
		return 0, errSize
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*float64(unit) >= math.MaxInt64/2 {
		return 0, errSize
	}
	return int64(n * float64(unit)), nil
}

// SplitTable reads a table's name: schema.table or table, each part quoted as in SQL, with double quotes or with MySQL's backticks, if it holds anything special.
func SplitTable(s string) (schema, name string, err error) {
	var parts []string
	for rest := s; ; {
		part, after, err := cutIdentifier(rest)
		if err != nil {
			return "", "", err
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		rest = after[1:]
	}
	switch len(parts) {
	case 1:
		return "", parts[0], nil
	case 2:
		return parts[0], parts[1], nil
	}
	return "", "", errTableName
}

var errTableName = errors.New(`must be table or schema.table; quote what holds a dot, as in "my.schema".outbox`)

// cutIdentifier takes one identifier off; after is empty or begins with the dot.
func cutIdentifier(s string) (part, after string, err error) {
	if !strings.HasPrefix(s, `"`) && !strings.HasPrefix(s, "`") {
		end := strings.IndexAny(s, ".\"`")
		if end < 0 {
			end = len(s)
		}
		part, after = s[:end], s[end:]
	} else {
		var b strings.Builder
		i, quote := 1, s[0]
		for {
			end := strings.IndexByte(s[i:], quote)
			if end < 0 {
				return "", "", errTableName
			}
			b.WriteString(s[i : i+end])
			i += end + 1
			if i == len(s) || s[i] != quote {
				break
			}
			b.WriteByte(quote)
			i++
		}
		part, after = b.String(), s[i:]
	}
	if part == "" || after != "" && after[0] != '.' {
		return "", "", errTableName
	}
	return part, after, nil
}
