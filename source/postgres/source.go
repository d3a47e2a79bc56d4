package postgres

// defaultMaxMessage applies where the configuration has no max_message.
const defaultMaxMessage = 16 << 20

func maxMessageOr(n int) int {
	if n <= 0 {
		return defaultMaxMessage
	}
	return n
}
