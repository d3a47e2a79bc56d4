package lane

import "github.com/tailbox/tailbox/sink"

// Receipts are what sinks answered for one message, a line each.
type Receipts struct{ lines string }

// Add takes a sink's answer; one that says nothing leaves no line.
func (r *Receipts) Add(sinkName string, answer *sink.Receipt) {
	line := ReceiptLine(sinkName, answer)
	if line == "" {
		return
	}
	if r.lines != "" {
		r.lines += "\n"
	}
	r.lines += line
}

// Text is all of it; "" of a message whose receipts are not wanted.
func (r *Receipts) Text() string {
	if r == nil {
		return ""
	}
	return r.lines
}

// ReceiptLine is what one sink answered, as it stands in the user's row.
func ReceiptLine(sinkName string, answer *sink.Receipt) string {
	if answer.Text() == "" {
		return ""
	}
	return sinkName + ": " + answer.Text()
}
