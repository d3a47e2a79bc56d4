package relay

import "github.com/tailbox/tailbox/sink"

// receipts are what sinks answered for one message, a line each.
type receipts struct{ lines string }

// add takes a sink's answer; one that says nothing leaves no line.
func (r *receipts) add(sinkName string, answer *sink.Receipt) {
	line := receiptLine(sinkName, answer)
	if line == "" {
		return
	}
	if r.lines != "" {
		r.lines += "\n"
	}
	r.lines += line
}

// text is all of it; "" of a message whose receipts are not wanted.
func (r *receipts) text() string {
	if r == nil {
		return ""
	}
	return r.lines
}

// receiptLine is what one sink answered, as it stands in the user's row.
func receiptLine(sinkName string, answer *sink.Receipt) string {
	if answer.Text() == "" {
		return ""
	}
	return sinkName + ": " + answer.Text()
}
