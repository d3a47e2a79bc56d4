package sink

// ValidHeaderName reports whether name is a token of RFC 9110: what the headers of HTTP, NATS and mail can be called.
func ValidHeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			continue
		}
		switch c {
		case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		default:
			return false
		}
	}
	return name != ""
}

// ValidHeaderValue reports whether a header that ends with its line can have this value.
func ValidHeaderValue[S string | []byte](value S) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// HeaderText is s as the value of such a header: control characters, % and spaces at either end become %XX.
func HeaderText(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '%' {
			return string(AppendHeaderText(nil, s, ""))
		}
	}
	return s
}

// AppendHeaderText appends HeaderText of s to b; the bytes of also become %XX as well.
func AppendHeaderText(b []byte, s, also string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		end := i == 0 || i == len(s)-1
		if c < ' ' || c == 0x7f || c == '%' || c == ' ' && end || contains(also, c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

func contains(set string, c byte) bool {
	for i := range len(set) {
		if set[i] == c {
			return true
		}
	}
	return false
}
