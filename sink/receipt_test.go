package sink_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

// A receipt is one bounded line, whatever a destination says.
func TestReceipt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "",
		" 250 2.0.0 Ok\r\n":                  "250 2.0.0 Ok",
		"{\n\t\"sent\": true\n}":             "{  \"sent\": true }",
		"a\xffb\x00c":                        "a\uFFFDb c",
		strings.Repeat("é", sink.MaxReceipt): strings.Repeat("é", sink.MaxReceipt/2),
		"x" + strings.Repeat("日", sink.MaxReceipt): "x" + strings.Repeat("日", (sink.MaxReceipt-1)/3),
	} {
		var r sink.Receipt
		r.Set(text)
		if got := r.Text(); got != want || !utf8.ValidString(got) {
			t.Errorf("%.40q: got %.40q, want %.40q", text, got, want)
		}
	}
	var none *sink.Receipt
	none.Set("nobody asks")
	if none.Text() != "" {
		t.Error("a receipt that nobody wants holds something")
	}
}
